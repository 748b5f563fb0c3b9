#include "schedule/slide.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "plan_buffer.h"
#include "schedule/register_tile.h"
#include "schedule/schedule.h"

namespace tektite {
namespace {

/// Windows over rows of images, a filter for each channel or for each pair of them: y = sum x[.., r * stride + i * apart, c + j] w[.., i, j].
struct Windows {
  int64_t rows, columns, taps, stride = 1, apart = 1;
  bool pairs = false;
  int64_t channels() const { return 3; }
  int64_t height() const { return (rows - 1) * stride + (taps - 1) * apart + 1; }
  int64_t width() const { return columns + taps - 1; }
};

GroupPlan planOf(const Windows& q) {
  const Expr c = var("i0"), y = var("i1"), x = var("i2"), i = var("i3"), j = var("i4");
  const Expr from = q.pairs ? Expr(var("i5")) : c;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {q.channels(), q.height(), q.width()}),
               planBuffer(PlanBuffer::Input, "w", {q.channels(), q.channels(), q.taps, q.taps}),
               planBuffer(PlanBuffer::Output, "y", {q.channels(), q.rows, q.columns})};
  Stage s;
  s.axes = {{"i0", q.channels(), false, {0, q.channels()}},
            {"i1", q.rows, false, {0, q.rows}},
            {"i2", q.columns, false, {0, q.columns}},
            {"i3", q.taps, true, {0, q.taps}},
            {"i4", q.taps, true, {0, q.taps}}};
  if (q.pairs) s.axes.push_back({"i5", q.channels(), true, {0, q.channels()}});
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {load("x", DType::F32, {from, y * Expr(q.stride) + i * Expr(q.apart), x + j}) *
                      load("w", DType::F32, {c, from, i, j})},
                     {"a"}}};
  s.outer = {{"y", {c, y, x}, var("a", DType::F32), "", {}}};
  s.contraction = true;
  p.lists = {{{}, {s}, -1}};
  return p;
}

using Arrays = std::map<std::string, std::vector<float>>;

/// What the kernel makes of numbers.
Arrays run(const GroupPlan& plan, const LoweredKernel& k) {
  Arrays data;
  for (const PlanBuffer& b : plan.buffers)
    for (int64_t i = 0; i < b.type.elements(); i++)
      data[b.name].push_back(static_cast<float>(i * 7919 % 1013) / 512 - 1);
  data["y"].assign(data["y"].size(), NAN);
  std::map<std::string, EvalBuffer> buffers;
  for (auto& [name, values] : data)
    buffers[name] = {values.data(), static_cast<int64_t>(values.size())};
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
  return data;
}

/// Against a plain loop, on a machine whose register tile slides or doesn't.
void check(const Windows& q, bool slides, const std::string& machine = "cpu:avx512") {
  const Target target = findTarget(machine);
  const GroupPlan plan = planOf(q);
  const Schedule schedule = chooseSchedule(plan, target);
  const LoweredKernel k = lowerGroup(plan, target, "k");
  SCOPED_TRACE(toText(plan, schedule) + toText(k.module));
  EXPECT_EQ(schedule.lists[0][0].slide.has_value(), slides);
  for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
  Arrays data = run(plan, k);
  for (int64_t c = 0; c < q.channels(); c++)
    for (int64_t y = 0; y < q.rows; y++)
      for (int64_t x = 0; x < q.columns; x++) {
        double sum = 0;
        for (int64_t f = q.pairs ? 0 : c; f <= (q.pairs ? q.channels() - 1 : c); f++)
          for (int64_t i = 0; i < q.taps; i++)
            for (int64_t j = 0; j < q.taps; j++)
              sum += static_cast<double>(
                         data["x"]
                             [(f * q.height() + y * q.stride + i * q.apart) * q.width() + x + j]) *
                     data["w"][((c * q.channels() + f) * q.taps + i) * q.taps + j];
        ASSERT_NEAR(data["y"][(c * q.rows + y) * q.columns + x], sum, 1e-4)
            << c << " " << y << " " << x;
      }
}

TEST(Slide, WindowsAreReadOnceForAllRows) {
  check({14, 14, 7}, true);
  check({15, 30, 3}, true);
  check({15, 30, 3, 1, 1, true}, true);
  check({12, 33, 3}, true, "cpu:avx2");
}

TEST(Slide, StridesAndDilations) {
  check({15, 29, 5, 2}, true);
  check({12, 32, 3, 1, 2}, true);
  check({12, 19, 5, 2, 3}, true);
  check({12, 32, 3, 4}, false);  // nothing is read twice
}

/// The places of rows and taps, counted one by one.
TEST(Slide, PlacesAreCounted) {
  for (const auto& [taps, rowStep, tapStep] :
       {std::array<int64_t, 3>{3, 1, 1}, {7, 1, 1}, {5, 2, 1}, {3, 1, 2}, {5, 2, 3}, {3, 4, 1}})
    for (int64_t rows = 1; rows <= 16; rows++) {
      std::set<int64_t> places;
      for (int64_t u = 0; u < rows; u++)
        for (int64_t r = 0; r < taps; r++) places.insert(u * rowStep + r * tapStep);
      EXPECT_EQ((Slide{0, taps, rowStep, tapStep}.places(rows)),
                static_cast<int64_t>(places.size()))
          << rows << " " << taps << " " << rowStep << " " << tapStep;
    }
}

/// Windows along a sequence, images in lanes: panels hold each place once, whatever number of windows reads it, and rows of the register tile
/// share its load.
TEST(Slide, PanelsHoldEachPlaceOnce) {
  struct Case {
    int64_t stride, apart, region;
  };
  for (const Case& q : {Case{1, 1, 9}, {2, 1, 9}, {1, 2, 9}, {2, 1, 3}, {1, 1, 3}}) {
    const int64_t images = 64, filters = 7, windows = 9, channels = 16, taps = 4;
    const int64_t width = (windows - 1) * q.stride + (taps - 1) * q.apart + 1;
    const Expr n = var("i0"), f = var("i1"), at = var("i2"), c = var("i3"), j = var("i4");
    GroupPlan p;
    p.buffers = {planBuffer(PlanBuffer::Input, "x", {images, channels, width}),
                 planBuffer(PlanBuffer::Input, "w", {filters, channels, taps}),
                 planBuffer(PlanBuffer::Output, "y", {images, filters, windows})};
    Stage s;
    s.depth = 1;
    s.axes = {{"i0", images, false, {0, images}},
              {"i1", filters, false, {0, filters}},
              {"i2", windows, false, {var("t0") * Expr(q.region), q.region}},
              {"i3", channels, true, {0, channels}},
              {"i4", taps, true, {0, taps}}};
    s.accumulators = {{builtinCombine("sum", DType::F32),
                       {load("x", DType::F32, {n, c, at * Expr(q.stride) + j * Expr(q.apart)}) *
                        load("w", DType::F32, {f, c, j})},
                       {"a"}}};
    s.outer = {{"y", {n, f, at}, var("a", DType::F32), "", {}}};
    s.contraction = true;
    p.lists = {{{{"t0", windows, q.region, false}}, {s}, -1}};
    const Target target = findTarget("cpu:avx512");
    const LoweredKernel k = lowerGroup(p, target, "k");
    const std::string text = toText(k.module);
    SCOPED_TRACE(text);
    for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
    std::set<int64_t> places;
    for (int64_t a = 0; a < q.region; a++)
      for (int64_t t = 0; t < taps; t++) places.insert(a * q.stride + t * q.apart);
    const int64_t span = *places.rbegin() + 1;
    EXPECT_NE(text.find(fmt::format("x16x{}x", span)), std::string::npos) << "panels";
    Arrays data = run(p, k);
    for (int64_t i = 0; i < images * filters * windows; i++) {
      const int64_t b = i / windows / filters, g = i / windows % filters, a = i % windows;
      double sum = 0;
      for (int64_t r = 0; r < channels; r++)
        for (int64_t t = 0; t < taps; t++)
          sum += static_cast<double>(
                     data["x"][(b * channels + r) * width + a * q.stride + t * q.apart]) *
                 data["w"][(g * channels + r) * taps + t];
      ASSERT_NEAR(data["y"][i], sum, 1e-4) << b << " " << g << " " << a;
    }
  }
}

/// Lines of 64 bytes that a tile reads, counted one by one: rows of a plane of 114 elements, windows of 3 x 3, beginning anywhere in a line.
TEST(Slide, LinesOfATileAreCounted) {
  const TileLoad load{true, true, true, 4, {{0, 0, 5}, {0, 1, 3}, {1, 0, 3}}};
  for (const int64_t rows : {1, 7, 14})
    for (const int64_t vectors : {1, 2, 3}) {
      int64_t lines = 0, places = 0;
      for (int64_t y = 0; y < 16; y++, places++)  // a tile's row begins at any of 16 places
        for (int64_t plane = 0; plane < 5; plane++)
          for (int64_t row = 0; row < rows + 2; row++) lines += (y + vectors * 16 + 1) / 16 + 1;
      EXPECT_NEAR(load.lines(vectors * 16, rows), static_cast<double>(lines) / 16,
                  0.05 * static_cast<double>(lines) / 16);
    }
}

/// A convolution of many channels into rows of its result: windows along x would come from L2 for each filter again, filters lie in lanes and
/// what is stored is transposed in registers (32 -> 32 channels, 112 x 112, 3 x 3 on Golden Cove: 2.0 ms against 1.3).
TEST(Slide, NotWhereAllComesFromL2AgainForEachFilter) {
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Scratch, "x", {32, 58, 114}),
               planBuffer(PlanBuffer::Constant, "w", {32, 32, 3, 3}),
               planBuffer(PlanBuffer::Output, "y", {32, 56, 112})};
  p.buffers[0].region = {{0, 32}, {0, 58}, {0, 114}};
  Stage s;
  const int64_t space[] = {32, 56, 112}, reduce[] = {32, 3, 3};
  for (int i = 0; i < 6; i++) {
    const int64_t n = i < 3 ? space[i] : reduce[i - 3];
    s.axes.push_back({fmt::format("i{}", i), n, i >= 3, {0, n}});
  }
  const auto i = [](int n) { return var(fmt::format("i{}", n)); };
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {load("x", DType::F32, {i(3), i(1) + i(4), i(2) + i(5)}) *
                      load("w", DType::F32, {i(0), i(3), i(4), i(5)})},
                     {"a"}}};
  s.outer = {{"y", {i(0), i(1), i(2)}, var("a", DType::F32), "", {}}};
  s.contraction = true;
  p.lists = {{{}, {s}, -1}};
  Target golden = findTarget("cpu:avx512");
  for (Level& level : golden.levels)
    level.bytes = level.name == "l1" ? 48 << 10 : level.name == "l2" ? 2 << 20 : level.bytes;
  const StageSchedule chosen = chooseSchedule(p, golden).lists[0][0];
  SCOPED_TRACE(toText(p, chooseSchedule(p, golden)));
  EXPECT_EQ(chosen.vectorAxis, 0);
  EXPECT_TRUE(chosen.across);
}

/// Sums whose order must stay are left as they are.
TEST(Slide, NotWhereSumsKeepTheirOrder) {
  GroupPlan plan = planOf({14, 14, 7});
  plan.canonical = true;
  EXPECT_FALSE(chooseSchedule(plan, findTarget("cpu:avx512")).lists[0][0].slide);
}

}  // namespace
}  // namespace tektite
