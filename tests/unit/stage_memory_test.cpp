// Stages that planning finds again: plans are what they are where nothing was planned before.
#include "fusion/stage_memory.h"

#include <gtest/gtest.h>

#include "fusion/plan_body.h"
#include "ir/builder.h"

namespace tektite {
namespace {

/// Rows that are normalised again and again, then multiplied, in parts of which one is a concatenation: bodies that begin alike.
Graph layers(int n, int64_t rows) {
  Builder b;
  Value x = b.input("x", {DType::F32, {rows, 64}});
  const Value w = b.input("w", {DType::F32, {64, 32}});
  for (int i = 0; i < n; i++) {
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {1})});
    const Value y = b.map("a / b", {e, b.reduce("sum", e, {1})});
    const Value z = b.contract("mk,kn->mn", y, w);
    x = i % 2 ? b.map("a + b", {y, x}) : b.concat({z, b.map("tanh(a)", {z})}, 1);
  }
  b.graph.outputs = {x};
  return b.graph;
}

TEST(StageMemory, ChangesNoPlan) {
  for (const char* name : {"cpu:avx2", "gpu-class", "npu:ascend910b"}) {
    const Target target = findTarget(name);
    PlanMemory kept;
    for (const int64_t rows : {16, 48})
      for (const int n : {1, 2, 3, 2, 4}) {
        const Graph body = layers(n, rows);
        const PlanResult again = planBody(body, accessesOf(body), target, {}, kept),
                         first = planGroup(body, target, {});
        ASSERT_TRUE(again.plan && first.plan) << toText(first.refusal);
        EXPECT_EQ(toText(*again.plan), toText(*first.plan)) << name << " " << n;
        EXPECT_EQ(hashOf(*again.plan), hashOf(*first.plan)) << name << " " << n;
        EXPECT_EQ(again.plan->cost.seconds, first.plan->cost.seconds);
      }
    EXPECT_FALSE(kept.stages.finished.empty());
  }
}

/// A stage's axes, loads and stores in numbers.
TEST(StageMemory, FactsOfAStage) {
  Stage s;
  s.axes = {{"i0", 8, false, {}}, {"i1", 4, true, {}}};
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {load("a", DType::F32, {var("i0"), var("i1") * Expr(2) + Expr(1)})},
                     {"s"}}};
  s.outer = {{"b", {var("i0")}, var("s", DType::F32), "", {}}};
  const StageFacts facts = factsOf(s);
  EXPECT_EQ(facts.buffers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(facts.shape.extents, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(facts.shape.reduce, (std::vector<bool>{false, true}));
  ASSERT_EQ(facts.shape.reads.size(), 1u);
  EXPECT_EQ(facts.shape.reads[0].buffer, 0);
  EXPECT_EQ(facts.shape.reads[0].dims[1].terms, (std::vector<std::pair<int, int64_t>>{{1, 2}}));
  EXPECT_EQ(facts.shape.reads[0].dims[1].constant, 1);
  ASSERT_EQ(facts.shape.writes.size(), 1u);
  EXPECT_EQ(facts.shape.writes[0].buffer, 1);
}

}  // namespace
}  // namespace tektite
