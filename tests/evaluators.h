#pragma once
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "guarded_memory.h"
#include "ir/graph_eval.h"
#include "ir/target.h"
#include "ops/op.h"
#include "runtime/compile.h"
#include "runtime/program.h"

namespace tektite {

/// A way to compute a graph's outputs from its inputs. Operator and conformance tests run on every one in the list.
struct Evaluator {
  std::string name;
  bool interpreted, unfused;
  std::function<std::vector<TensorAttribute>(const Graph&, const std::vector<TensorAttribute>&)>
      run;
};

inline TensorAttribute tensor(DType t, std::vector<int64_t> shape,
                              const std::vector<double>& values) {
  const Tensor made = Tensor::of(t, std::move(shape), values);
  return {made.type(), made.toConst()};
}

inline std::vector<TensorAttribute> interpret(const Graph& graph,
                                              const std::vector<TensorAttribute>& inputs) {
  std::vector<Tensor> in;
  for (const TensorAttribute& t : inputs)
    in.push_back(Tensor::fromRaw(t.type.dtype, t.type.extents(), t.data->data));
  std::vector<TensorAttribute> out;
  for (const Tensor& t : evaluate(graph, in)) out.push_back({t.type(), t.toConst()});
  return out;
}

inline CompileOptions compileOptions(bool unfused, const Target& target = hostTarget()) {
  CompileOptions options;
  options.target = target;
  options.fusion.unfused = unfused;
  options.fallback = [](const Fallback&) {
  };  // control flow as nodes; fallback_test.cpp tests the refusal
  return options;
}

/// Compiled for this machine or another target; unfused: a kernel for each node of the model.
inline std::vector<TensorAttribute> runCompiled(const Graph& graph,
                                                const std::vector<TensorAttribute>& inputs,
                                                bool unfused, const Target& target = hostTarget()) {
  const CompileOptions options = compileOptions(unfused, target);
  const Graph prepared = prepareGraph(graph, {}, {});
  const auto program = compile(prepared, options);
  std::vector<std::shared_ptr<std::vector<char>>> memory;
  std::vector<void*> to;
  std::vector<TensorAttribute> out;
  for (const TensorType& t : program->outputs) {
    memory.push_back(std::make_shared<std::vector<char>>(
        static_cast<size_t>(t.elements()) * static_cast<size_t>(bytes(t.dtype)) + 1));
    to.push_back(memory.back()->data());
    auto data = std::make_shared<ConstData>();
    data->data = to.back();
    data->bytes = memory.back()->size() - 1;
    data->owner = memory.back();
    out.push_back({t, data});
  }
  for (const bool atEnd : {false, true}) {  // nothing outside of the inputs is read, on either side
    std::vector<std::unique_ptr<GuardedMemory>> guarded;
    std::vector<const void*> in;
    for (const TensorAttribute& t : inputs) {
      guarded.push_back(std::make_unique<GuardedMemory>(t.data->bytes, atEnd));
      std::memcpy(guarded.back()->data(), t.data->data, t.data->bytes);
      in.push_back(guarded.back()->data());
    }
    Session(program, nullptr).run(in.data(), to.data());
  }
  return out;
}

inline const std::vector<Evaluator>& evaluators() {
  static const std::vector<Evaluator> all = {
      {"interpreted", true, false, interpret},
      {"fused", false, false,
       [](const Graph& g, const std::vector<TensorAttribute>& in) {
         return runCompiled(g, in, false);
       }},
      {"unfused", false, true, [](const Graph& g, const std::vector<TensorAttribute>& in) {
         return runCompiled(g, in, true);
       }}};
  return all;
}

}  // namespace tektite
