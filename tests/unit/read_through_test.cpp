#include "lower/read_through.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "lowered_executor.h"
#include "plan_buffer.h"

namespace tektite {
namespace {

constexpr int64_t kDepth = 6;  // of the product in front

/// A depthwise convolution with a border of zeros, channels last: of x, or of relu(x times u + b) that the same kernel makes.
struct Windows {
  int64_t size, channels, window, stride, rows;  ///< rows of the result a tile
  bool made = false;
  bool channelsFirst = false;
  int64_t pad() const { return window / 2; }
  int64_t padded() const { return size + 2 * pad(); }
  int64_t out() const { return (padded() - window) / stride + 1; }
};

Expr of(const char* name, std::vector<Expr> index) {
  return load(name, DType::F32, std::move(index));
}

GroupPlan planOf(const Windows& q) {
  const Expr c = var("i0"), y = var("i1"), x = var("i2"), t = var("t0");
  const int64_t n = q.size, held = (q.rows - 1) * q.stride + q.window;
  const Region all{0, q.channels}, window{t * Expr(q.rows * q.stride), held};
  const std::vector<int> order =
      q.channelsFirst ? std::vector<int>{0, 1, 2} : std::vector<int>{1, 2, 0};
  GroupPlan p;
  p.buffers = {q.made ? planBuffer(PlanBuffer::Input, "x", {n, n, kDepth})
                      : planBuffer(PlanBuffer::Input, "x", {q.channels, n, n}),
               planBuffer(PlanBuffer::Constant, "w", {q.channels, q.window, q.window}),
               planBuffer(PlanBuffer::Output, "y", {q.channels, q.out(), q.out()})};
  if (!q.made) p.buffers[0].order = order;
  p.buffers[2].order = order;
  const auto scratch = [&](const char* name, int64_t extent, Region rows) {
    PlanBuffer b = planBuffer(PlanBuffer::Scratch, name, {q.channels, extent, extent});
    b.region = {all, std::move(rows), {0, extent}};
    b.depth = 1;
    b.space = "l2";
    p.buffers.push_back(b);
  };
  TileList list{{{"t0", q.out(), q.rows, true}}, {}, -1};
  const Combine sum = builtinCombine("sum", DType::F32);
  const Region inside{t * Expr(q.rows * q.stride) - Expr(q.pad()), held};
  if (q.made) {
    p.buffers.insert(p.buffers.begin() + 1,
                     {planBuffer(PlanBuffer::Constant, "u0", {q.channels, kDepth}),
                      planBuffer(PlanBuffer::Constant, "b", {q.channels})});
    scratch("made", n, inside);
    Stage product;
    product.axes = {{"i0", q.channels, false, all},
                    {"i1", n, false, inside},
                    {"i2", n, false, {0, n}},
                    {"i3", kDepth, true, {0, kDepth}}};
    product.accumulators = {{sum, {of("x", {y, x, var("i3")}) * of("u0", {c, var("i3")})}, {"a"}}};
    product.outer = {{"made", {c, y, x}, var("a", DType::F32), "", {}}};
    product.contraction = true;
    list.stages.push_back(product);
  }
  scratch("m", q.padded(), window);
  const Expr pad(q.pad());
  const std::vector<Expr> there = {c, y - pad, x - pad};
  const auto in = [&](const Expr& e) { return logicalAnd(le(pad, e), lt(e, Expr(n + q.pad()))); };
  const Expr value =
      q.made ? max(of("made", there) + of("b", {c}), imm(DType::F32, 0)) : of("x", there);
  Stage copy;
  copy.axes = {{"i0", q.channels, false, all},
               {"i1", q.padded(), false, window},
               {"i2", q.padded(), false, {0, q.padded()}}};
  copy.inner = {
      {"m", {c, y, x}, select(logicalAnd(in(y), in(x)), value, imm(DType::F32, 0)), "", {}}};
  Stage windows;
  windows.axes = {{"i0", q.channels, false, all},
                  {"i1", q.out(), false, {t * Expr(q.rows), q.rows}},
                  {"i2", q.out(), false, {0, q.out()}},
                  {"i3", q.window, true, {0, q.window}},
                  {"i4", q.window, true, {0, q.window}}};
  const Expr s(q.stride), i = var("i3"), j = var("i4");
  windows.accumulators = {{sum, {of("m", {c, y * s + i, x * s + j}) * of("w", {c, i, j})}, {"a"}}};
  windows.outer = {{"y", {c, y, x}, var("a", DType::F32), "", {}}};
  windows.contraction = true;
  list.stages.push_back(copy);
  list.stages.push_back(windows);
  for (Stage& stage : list.stages) stage.depth = 1;
  p.lists = {list};
  return p;
}

/// What the input of the windows is at a place, by a plain loop.
double sourceAt(const Windows& q, const std::map<std::string, std::vector<float>>& data, int64_t c,
                int64_t y, int64_t x) {
  if (y < 0 || x < 0 || y >= q.size || x >= q.size) return 0;
  if (!q.made)
    return data.at(
        "x")[q.channelsFirst ? (c * q.size + y) * q.size + x : (y * q.size + x) * q.channels + c];
  double sum = data.at("b")[c];
  for (int64_t k = 0; k < kDepth; k++)
    sum += static_cast<double>(data.at("x")[(y * q.size + x) * kDepth + k]) *
           data.at("u0")[c * kDepth + k];
  return std::max(sum, 0.0);
}

void check(const Windows& q, bool readsThrough, const std::string& machine = "cpu:avx2") {
  const Target target = findTarget(machine);
  const GroupPlan plan = planOf(q);
  const LoweredKernel k = lowerGroup(plan, target, "k");
  SCOPED_TRACE(toText(k.module));
  for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
  EXPECT_EQ(toText(k.module).find("alloc m:") == std::string::npos, readsThrough);
  std::map<std::string, std::vector<float>> data;
  for (const PlanBuffer& b : plan.buffers)
    for (int64_t i = 0; b.kind != PlanBuffer::Scratch && i < b.type.elements(); i++)
      data[b.name].push_back(
          static_cast<float>((i * 7919 + static_cast<int64_t>(b.name[0])) % 1013) / 512 - 1);
  data["y"].assign(data["y"].size(), NAN);
  for (const PackedConstant& p : k.packed)
    data[p.param] = packedFloats(p, data.at(p.source), plan.buffer(p.source).type);
  std::map<std::string, EvalBuffer> buffers;
  for (const Param& p : k.kernel().params)
    buffers[p.buffer.name] = {data.at(p.buffer.name).data(),
                              static_cast<int64_t>(data.at(p.buffer.name).size())};
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
  for (int64_t c = 0; c < q.channels; c++)
    for (int64_t y = 0; y < q.out(); y++)
      for (int64_t x = 0; x < q.out(); x++) {
        double sum = 0;
        for (int64_t i = 0; i < q.window; i++)
          for (int64_t j = 0; j < q.window; j++)
            sum += sourceAt(q, data, c, y * q.stride + i - q.pad(), x * q.stride + j - q.pad()) *
                   data.at("w")[(c * q.window + i) * q.window + j];
        const int64_t at =
            q.channelsFirst ? (c * q.out() + y) * q.out() + x : (y * q.out() + x) * q.channels + c;
        ASSERT_NEAR(data.at("y")[at], sum, 1e-5) << c << " " << y << " " << x;
      }
}

TEST(ReadThrough, DepthwiseWindowsOfAnInput) {
  check({14, 24, 3, 1, 7}, true);
  check({15, 8, 3, 2, 4}, true);
  check({13, 40, 5, 1, 5}, true, "cpu:avx512");
  check({28, 16, 7, 2, 6}, true);
}

/// What the copy computes on the way is done where its source is stored.
TEST(ReadThrough, DepthwiseWindowsOfWhatTheKernelMakes) {
  check({14, 24, 3, 1, 7, true}, true);
  check({15, 16, 5, 2, 3, true}, true, "cpu:avx512");
}

/// Lanes along rows would be masked at each border.
TEST(ReadThrough, LanesAlongRowsKeepTheCopy) { check({16, 3, 3, 1, 8, false, true}, false); }

}  // namespace
}  // namespace tektite
