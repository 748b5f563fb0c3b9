#include <gtest/gtest.h>

#include <cmath>

#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "plan_buffer.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

constexpr int64_t kPlanes = 12, kWidth = 64;

Target smallCaches() {
  Target t = findTarget("cpu:avx2");
  for (Level& level : t.levels) {
    if (level.name == "l1") level.bytes = 8 << 10;   // sets repeat after 1 KB
    if (level.name == "l2") level.bytes = 32 << 10;  // after 4 KB
  }
  return t;
}

/// y = (x - mean) / sqrt(mean of squares) over the planes of [2, planes, rows, width]: a row of all planes is a tile.
GroupPlan normalised(int64_t rows) {
  const Expr n = var("i0"), c = var("i1"), h = var("i2"), w = var("i3");
  const Region one{var("t0"), 1}, row{var("t1"), 1}, planes{0, kPlanes}, columns{0, kWidth};
  const std::vector<Expr> at = {n, c, h, w}, first = {n, 0, h, w};
  const auto of = [](const char* b, std::vector<Expr> index) {
    return load(b, DType::F32, std::move(index));
  };
  const std::vector<StageAxis> reduced = {{"i0", 2, false, one},
                                          {"i2", rows, false, row},
                                          {"i3", kWidth, false, columns},
                                          {"i1", kPlanes, true, planes}};
  const Expr share = imm(DType::F32, 1.0 / kPlanes), off = of("x", at) - of("mean", first);
  const Combine sum = builtinCombine("sum", DType::F32);
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {2, kPlanes, rows, kWidth}),
               planBuffer(PlanBuffer::Output, "y", {2, kPlanes, rows, kWidth})};
  for (const auto& [name, extent] : {std::pair{"mean", int64_t{1}}, {"d", kPlanes}, {"s", 1}}) {
    PlanBuffer b = planBuffer(PlanBuffer::Scratch, name, {2, extent, rows, kWidth});
    b.region = {one, {0, extent}, row, columns};
    b.depth = 2;
    b.space = "l2";
    p.buffers.push_back(b);
  }
  Stage mean{reduced, {}, {{sum, {of("x", at)}, {"a"}}}, {}};
  mean.outer = {{"mean", first, var("a", DType::F32) * share, "", {}}};
  Stage spread{reduced, {{"d", at, off, "", {}}}, {{sum, {off * off}, {"a"}}}, {}};
  spread.outer = {{"s", first, apply(Op::Sqrt, {var("a", DType::F32) * share}), "", {}}};
  Stage divide{reduced, {{"y", at, of("d", at) / of("s", first), "", {}}}, {}, {}};
  for (StageAxis& a : divide.axes) a.reduce = false;
  std::swap(divide.axes[1], divide.axes[3]);
  p.lists = {{{{"t0", 2, 1, true}, {"t1", rows, 1, true}}, {mean, spread, divide}, -1}};
  for (Stage& s : p.lists[0].stages) s.depth = 2;
  return p;
}

void check(const GroupPlan& plan, const Target& target, int64_t rows) {
  const LoweredKernel k = lowerGroup(plan, target, "k");
  SCOPED_TRACE(toText(k.module));
  for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
  const int64_t plane = rows * kWidth;
  std::vector<float> x, y(static_cast<size_t>(2 * kPlanes * plane), NAN);
  for (size_t i = 0; i < y.size(); i++) x.push_back(static_cast<float>(i * i % 1009) / 512 - 1);
  std::map<std::string, EvalBuffer> buffers = {{"x", {x.data(), static_cast<int64_t>(x.size())}},
                                               {"y", {y.data(), static_cast<int64_t>(y.size())}}};
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
  for (int64_t i = 0; i < 2 * plane; i++) {
    const int64_t start = i / plane * kPlanes * plane + i % plane;
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < kPlanes; c++) sum += x[start + c * plane];
    for (int64_t c = 0; c < kPlanes; c++)
      squares += std::pow(x[start + c * plane] - sum / kPlanes, 2);
    for (int64_t c = 0; c < kPlanes; c++)
      ASSERT_NEAR(y[start + c * plane],
                  (x[start + c * plane] - sum / kPlanes) / std::sqrt(squares / kPlanes), 1e-5)
          << i << " " << c;
  }
}

size_t countOf(const std::string& text, const std::string& word) {
  size_t n = 0;
  for (size_t i = text.find(word); i != std::string::npos; i = text.find(word, i + 1)) n++;
  return n;
}

/// Planes of 4 KB: a row of all of them lies in four sets. The first stage keeps it where the second one puts the differences.
TEST(NearCache, RowsInFewSetsAreKept) {
  const Target target = smallCaches();
  const GroupPlan plan = normalised(16), prepared = prepare(plan, target);
  EXPECT_EQ(prepared.buffers.size(), plan.buffers.size());
  const std::string text = toText(lowerGroup(plan, target, "k").module);
  EXPECT_EQ(countOf(text, "w0 = d["), 1u) << text;
  EXPECT_EQ(countOf(text, "copy @l2 <- x["), 1u) << text;
  const std::string again = toText(parseKernels(text, "lowered"));
  EXPECT_EQ(countOf(again, "copy @l2 <- x["), 1u) << again;
  check(plan, target, 16);
}

/// Planes of 4 KB and a line: the sets are others in each, and the second stage reads x again.
TEST(NearCache, RowsThatStayAreReadAgain) {
  const Target target = smallCaches();
  const GroupPlan plan = normalised(17);
  const std::string text = toText(lowerGroup(plan, target, "k").module);
  EXPECT_EQ(countOf(text, "w0 = x["), 1u) << text;
  check(plan, target, 17);
}

TEST(NearCache, SetsAreCrowdedByPowersOfTwo) {
  const PlanBuffer b = planBuffer(PlanBuffer::Input, "x", {64, 1024});
  Stage s;
  s.axes = {{"i0", 64, false, {0, 64}}, {"i1", 1024, false, {0, 16}}};
  const std::vector<Expr> index = {var("i0"), var("i1")};
  EXPECT_TRUE(crowdsSets(b, index, s, 32 << 10));    // 64 lines, all in one of 64 sets of 8
  EXPECT_FALSE(crowdsSets(b, index, s, 256 << 10));  // in eight of 512
  s.axes[0].region.size = 8;
  EXPECT_FALSE(crowdsSets(b, index, s, 32 << 10));
  s.axes[1].region.size = 1024;  // 32 KB side by side
  EXPECT_FALSE(crowdsSets(b, index, s, 32 << 10));
}

}  // namespace
}  // namespace tektite
