#pragma once
#include <functional>
#include <string>
#include <vector>

#include "ir/graph_eval.h"
#include "ops/op.h"

namespace tektite {

/// A way to compute a graph's outputs from its inputs. Operator and conformance tests run on every one in the list.
struct Evaluator {
  std::string name;
  std::function<std::vector<TensorAttribute>(const Graph&, const std::vector<TensorAttribute>&)> run;
};

inline std::vector<TensorAttribute> interpret(const Graph& graph, const std::vector<TensorAttribute>& inputs) {
  std::vector<Tensor> in;
  for (const TensorAttribute& t : inputs) in.push_back(Tensor::fromRaw(t.type.dtype, t.type.extents(), t.data->data));
  std::vector<TensorAttribute> out;
  for (const Tensor& t : evaluate(graph, in)) out.push_back({t.type(), t.toConst()});
  return out;
}

inline const std::vector<Evaluator>& evaluators() {
  static const std::vector<Evaluator> all = {{"interpreted", interpret}};
  return all;
}

}  // namespace tektite
