#include <gtest/gtest.h>

#include <cmath>

#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "plan_buffer.h"
#include "schedule/schedule.h"

namespace tektite {
namespace {

/// y[h, j] = sum over k of q[h, k] x[h, j, k]: every element of x is used once, and only k is one in memory.
GroupPlan rowTimesRows(int64_t heads, int64_t rows, int64_t depth) {
  const Expr h = var("i0"), j = var("i1"), k = var("i2");
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "q", {heads, depth}),
               planBuffer(PlanBuffer::Input, "x", {heads, rows, depth}),
               planBuffer(PlanBuffer::Output, "y", {heads, rows})};
  Stage s;
  s.axes = {{"i0", heads, false, {0, heads}},
            {"i1", rows, false, {0, rows}},
            {"i2", depth, true, {0, depth}}};
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {load("q", DType::F32, {h, k}) * load("x", DType::F32, {h, j, k})},
                     {"a"}}};
  s.outer = {{"y", {h, j}, var("a", DType::F32), "", {}}};
  s.contraction = true;
  p.lists = {{{}, {s}, -1}};
  return p;
}

TEST(Choose, LanesSumWhereNothingIsUsedAgain) {
  constexpr int64_t kHeads = 2, kRows = 40, kDepth = 64;
  const GroupPlan plan = rowTimesRows(kHeads, kRows, kDepth);
  const Target target = findTarget("cpu:avx512");
  const Schedule schedule = chooseSchedule(plan, target);
  SCOPED_TRACE(toText(plan, schedule));
  EXPECT_EQ(schedule.lists[0][0].vectorAxis, 2);
  EXPECT_TRUE(schedule.lists[0][0].packed.empty());
  const LoweredKernel k = lowerGroup(plan, target, "k");
  for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
  std::vector<float> q, x, y(kHeads * kRows, NAN);
  for (int64_t i = 0; i < kHeads * kDepth; i++) q.push_back(static_cast<float>(i % 13) / 8 - 1);
  for (int64_t i = 0; i < kHeads * kRows * kDepth; i++)
    x.push_back(static_cast<float>(i * 31 % 101) / 64 - 1);
  KernelEvaluator(k.module, k.kernel())
      .run({{"q", {q.data(), static_cast<int64_t>(q.size())}},
            {"x", {x.data(), static_cast<int64_t>(x.size())}},
            {"y", {y.data(), static_cast<int64_t>(y.size())}}},
           {}, {});
  for (int64_t i = 0; i < kHeads * kRows; i++) {
    double sum = 0;
    for (int64_t c = 0; c < kDepth; c++)
      sum += static_cast<double>(q[i / kRows * kDepth + c]) * x[i * kDepth + c];
    ASSERT_NEAR(y[i], sum, 1e-4) << i;
  }
}

/// Sums that keep their order take no lanes along it.
TEST(Choose, LanesDontSumInOrder) {
  GroupPlan plan = rowTimesRows(2, 40, 64);
  plan.canonical = true;
  EXPECT_NE(chooseSchedule(plan, findTarget("cpu:avx512")).lists[0][0].vectorAxis, 2);
}

/// A matrix whose rows lie 4000 bytes apart is no operand to broadcast from: each step of the sum would wait for memory.
TEST(Choose, FarStepsAreNotBroadcast) {
  constexpr int64_t kSize = 1000;
  const Expr i = var("i0"), j = var("i1"), k = var("i2");
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {kSize, kSize}),
               planBuffer(PlanBuffer::Constant, "w", {kSize, kSize}),
               planBuffer(PlanBuffer::Output, "y", {kSize, kSize})};
  Stage s;
  s.axes = {{"i0", kSize, false, {var("t0") * Expr(256), 256}},
            {"i1", kSize, false, {0, kSize}},
            {"i2", kSize, true, {0, kSize}}};
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {load("x", DType::F32, {i, k}) * load("w", DType::F32, {k, j})},
                     {"a"}}};
  s.outer = {{"y", {i, j}, var("a", DType::F32), "", {}}};
  s.contraction = true;
  s.depth = 1;
  p.lists = {{{{"t0", kSize, 256, true}}, {s}, -1}};
  const Schedule schedule = chooseSchedule(p, findTarget("cpu:avx512"));
  SCOPED_TRACE(toText(p, schedule));
  EXPECT_EQ(schedule.lists[0][0].vectorAxis, 1);
  EXPECT_EQ(schedule.lists[0][0].packed, std::vector<std::string>{"w"});
}

}  // namespace
}  // namespace tektite
