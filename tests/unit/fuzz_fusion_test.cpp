#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "fusion/fuse.h"
#include "fuzz/fuzz.h"
#include "fuzz_seeds.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "lowered_executor.h"
#include "plan_executor.h"

namespace tektite {
namespace {

TestTensor toTest(const Tensor& t) {
  TestTensor out{t.type(), {}, {}};
  for (int64_t i = 0; i < t.elements(); i++)
    if (isFloat(t.dtype))
      out.real.push_back(roundTo(t.dtype, t.reals()[i]));
    else
      out.integer.push_back(t.integers()[i]);
  return out;
}
Tensor fromTest(const TestTensor& t) {
  Tensor out = Tensor::zeros(t.type.dtype, t.type.extents());
  for (int64_t i = 0; i < out.elements(); i++)
    if (isFloat(out.dtype))
      out.reals()[i] = t.real[i];
    else
      out.integers()[i] = t.integer[i];
  return out;
}

FusionOptions options(uint64_t seed) {
  FusionOptions o;
  o.unfused = seed % 7 == 0;
  o.inlineMove = seed % 5 != 1;
  o.placeMove = seed % 6 != 1;
  o.mergeMove = seed % 4 != 1;
  if (seed % 11 == 3) o.scratchBytes = 2048;
  return o;
}

/// Every group that fusion makes of a random graph: its plan and its kernels against the interpreted body, on the group's own inputs.
std::string wrongGroup(uint64_t seed, const std::string& machine) {
  RandomGraphOptions shape;
  shape.nodes = 3 + static_cast<int>(seed % 12);
  shape.mostElements = 600;
  shape.updates = false;
  const Target target = findTarget(machine);
  const Graph g = runPasses(randomGraph(seed, shape), {});
  const std::vector<Tensor> inputs = randomInputs(g, seed, seed % 5 == 0);
  const Fused fused = fuse(g, target, options(seed));
  verify(fused.graph);
  std::map<Value, Tensor> values;
  for (size_t i = 0; i < fused.graph.inputs().size(); i++)
    values[fused.graph.inputs()[i]] = inputs[i];
  for (int n = 0; n < static_cast<int>(fused.graph.nodes.size()); n++) {
    const Node& node = fused.graph.nodes[n];
    if (node.as<Input>()) continue;
    if (node.as<Const>()) {
      values[{n, 0}] = Tensor::fromConst(node);
      continue;
    }
    const Group* group = node.as<Group>();
    if (!group)
      return fmt::format("node %{} is left alone: {}\n{}", n, kindName(node.kind),
                         toText(fused.graph));
    std::vector<Tensor> operands;
    for (Value v : node.operands) operands.push_back(fromTest(toTest(values.at(v))));
    const std::vector<Tensor> want = evaluate(*group->body, operands);
    std::map<Value, TestTensor> leaves;
    for (size_t i = 0; i < operands.size(); i++)
      leaves[group->body->inputs()[i]] = toTest(operands[i]);
    for (int i = 0; i < static_cast<int>(group->body->nodes.size()); i++)
      if (group->body->nodes[i].as<Const>())
        leaves[{i, 0}] = toTest(Tensor::fromConst(group->body->nodes[i]));
    for (const bool scheduled : {false, true}) {
      if (!scheduled && target.kind == "gpu") continue;
      const std::string how = scheduled ? machine : "naive";
      const auto found = [&](const std::string& what) {
        return fmt::format("{}, {}: {}\n{}\n{}", machine, how, what, toText(*group->body),
                           toText(*group->plan));
      };
      try {
        const LoweredKernel k = lowerGroup(*group->plan, target, "k", scheduled);
        for (const KernelFault& fault : faultsOf(k.module, {&target}))
          return found(std::string(fault.what()) + "\n" + toText(k.module));
        const std::vector<TestTensor> got = runLowered(*group->plan, *group->body, leaves, how);
        if (got.size() != want.size()) return found("results are missing");
        for (size_t i = 0; i < want.size(); i++) {
          const double d = largestDifference(fromTest(got[i]), fromTest(toTest(want[i])));
          if (!(d <= 1e-4))
            return found(fmt::format("result {} differs by {}\n{}", i, d, toText(k.module)));
        }
      } catch (const std::exception& e) {
        return found(e.what());
      }
    }
    for (size_t i = 0; i < want.size(); i++) values[{n, static_cast<int>(i)}] = want[i];
  }
  return "";
}

/// Seeds: fuzz_seeds.h. TEKTITE_FUZZ_ALL=1 doesn't stop at the first failure.
void runSeeds(const std::function<std::string(uint64_t)>& machine) {
  const Seeds seeds = fuzzSeeds(0);
  for (uint64_t s = seeds.first; s < seeds.last; ++s) {
    std::string wrong;
    try {
      wrong = wrongGroup(s, machine(s));
    } catch (const std::exception& e) {
      wrong = fmt::format("{}", e.what());
    }
    if (wrong.empty()) continue;
    ADD_FAILURE() << "seed " << s << ": " << wrong;
    if (!std::getenv("TEKTITE_FUZZ_ALL")) break;
  }
}

TEST(Fuzz, GroupsAndTheirKernelsComputeWhatTheirBodiesDo) {
  const char* targets[] = {"cpu:avx2", "cpu:avx512", "cpu:x86-64"};
  runSeeds([&](uint64_t seed) { return targets[seed % 3]; });
}

TEST(Fuzz, GroupsAndTheirKernelsComputeWhatTheirBodiesDoInTeams) {
  runSeeds([](uint64_t) { return "test:sm_80"; });
}

}  // namespace
}  // namespace tektite
