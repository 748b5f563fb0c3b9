#include <cmath>

#include "fuzz/fuzz.h"
#include "runtime/verify.h"

namespace tektite {
namespace {

constexpr double kTolerance = 1e-4;  // of an output's largest value: f32 sums in another order

CompileOptions someOptions(uint64_t seed, const Target& target) {
  CompileOptions o;
  o.target = target;
  o.threads = 1 + static_cast<int>(seed % 3);
  o.fusion.inlineMove = seed % 5 != 1;
  o.fusion.placeMove = seed % 6 != 1;
  o.fusion.mergeMove = seed % 4 != 1;
  o.reuseMemory = seed % 3 != 1;
  if (seed % 8 == 6) {  // so much that recurrences take in what is around them
    o.target.launchSeconds = 4e-6;
    o.target.gridSyncSeconds = 2e-6;
  }
  if (seed % 11 == 3) o.fusion.scratchBytes = 2048;
  return o;
}

/// The interpreter's doubles go on where f32 overflows: such a case says nothing.
bool staysInRange(const Graph& g, const std::vector<Tensor>& inputs) {
  constexpr double kMost = 1e30;
  bool within = true;
  EvalOptions options;
  options.observe = [&](int, const std::vector<Tensor>& results) {
    for (const Tensor& t : results)
      for (int64_t i = 0; i < t.elements(); ++i)
        within &= !(std::isfinite(t.at(i)) && std::fabs(t.at(i)) > kMost);
  };
  evaluate(g, inputs, options);
  return within;
}

std::vector<Array> arraysOf(const std::vector<Tensor>& tensors) {
  std::vector<Array> out;
  for (const Tensor& t : tensors) {
    out.emplace_back(t.dtype, t.shape);
    t.toRaw(out.back().data());
  }
  return out;
}

std::string firstProblem(const Verification& v) {
  for (const OutputCheck& o : v.outputs) {
    if (!o.fused.ok) return fmt::format("fused output {}: {}", o.name, o.fused.problem);
    if (!o.unfused.ok) return fmt::format("unfused output {}: {}", o.name, o.unfused.problem);
  }
  return "a group parts from the interpreter";
}

}  // namespace

std::optional<FuzzFailure> fuzzCompiled(uint64_t seed, const Target& target) {
  RandomGraphOptions shape;
  shape.nodes = 3 + static_cast<int>(seed % 14);
  const Graph g = seed % 4 == 2 ? randomScan(seed, shape) : randomGraph(seed, shape);
  try {
    const CompileOptions options = someOptions(seed, target);
    const Graph prepared = prepareGraph(g, {}, options.passes);
    const std::vector<Tensor> inputs = randomInputs(prepared, seed, seed % 5 == 0);
    if (!staysInRange(prepared, inputs)) return std::nullopt;
    VerifyOptions check;
    check.tolerance.ofLargest = kTolerance;
    const Verification v = verifyProgram(prepared, arraysOf(inputs), options, check);
    if (!v.ok) {
      const std::string where =
          v.firstWrong ? fmt::format("first wrong: {}\n", v.fused[*v.firstWrong].kernel) : "";
      return FuzzFailure{seed, fmt::format("{}\n{}{}", firstProblem(v), where, toText(prepared))};
    }
  } catch (const std::exception& e) {
    return FuzzFailure{seed, fmt::format("{}\n{}", e.what(), toText(g))};
  }
  return std::nullopt;
}

}  // namespace tektite
