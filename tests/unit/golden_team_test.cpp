// tests/team: graphs, and the kernels that teams run for them. Each kernel keeps the rules and computes what its body does.
#include "fusion/fuse.h"
#include "golden.h"
#include "ir/graph_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "lowered_executor.h"

namespace tektite {
namespace {

TestTensor testTensor(const TensorType& type, int seed) {
  TestTensor t{type, {}, {}};
  for (int64_t i = 0; i < type.elements(); i++) {
    const int64_t k = (i * 7919 + seed * 104729) % 1009;
    if (isFloat(type.dtype))
      t.real.push_back(roundTo(type.dtype, static_cast<double>(k) / 504.5 - 1));
    else
      t.integer.push_back(k % 5);
  }
  return t;
}

void compare(const Group& group, const std::string& target) {
  std::map<Value, TestTensor> leaves;
  std::vector<Tensor> operands;
  for (const Value& v : group.body->inputs()) {
    const TestTensor t = testTensor(group.body->type(v), v.node);
    Tensor operand = Tensor::zeros(t.type.dtype, t.type.extents());
    for (int64_t i = 0; i < operand.elements(); i++)
      isFloat(operand.dtype) ? void(operand.reals()[i] = t.real[i])
                             : void(operand.integers()[i] = t.integer[i]);
    operands.push_back(std::move(operand));
    leaves[v] = t;
  }
  const std::vector<Tensor> want = evaluate(*group.body, operands);
  const std::vector<TestTensor> got = runLowered(*group.plan, *group.body, leaves, target);
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < got.size(); o++) {
    const double rounding = want[o].dtype == DType::F16 ? 1e-3 : 1e-5;
    for (int64_t i = 0; i < want[o].elements(); i++)
      ASSERT_NEAR(got[o].real[i], want[o].reals()[i], rounding * (1 + std::abs(want[o].reals()[i])))
          << o << " at " << i;
  }
}

std::string kernelsOf(const std::string& text, const GoldenSettings& settings) {
  const Target target = findTarget(settings.at("target"));
  const Fused fused = fuse(parseGraph(text, "case"), target, {});
  std::string out;
  for (const Node& node : fused.graph.nodes) {
    const Group* group = node.as<Group>();
    if (!group) continue;
    const LoweredKernel k = lowerGroup(*group->plan, target, "k");
    for (const KernelFault& fault : faultsOf(k.module, {&target}))
      ADD_FAILURE() << fault.what() << "\n" << toText(k.module);
    compare(*group, settings.at("target"));
    out += toText(k.module);
  }
  return out;
}

TEST(Golden, KernelsOfTeams) {
  for (const auto& file : goldenFiles("team"))
    checkGoldens(
        file, [](const std::string& text) { return toText(parseGraph(text, "case")); }, kernelsOf);
}

}  // namespace
}  // namespace tektite
