#include "lower/lower.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "fusion/orders.h"
#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "ir/target.h"
#include "lowered_executor.h"
#include "plan_buffer.h"
#include "schedule/schedule.h"

namespace tektite {
namespace {

using Arrays = std::map<std::string, std::vector<float>>;

PlanBuffer scratch(std::string name, std::vector<Expr> shape, std::vector<Region> region,
                   int depth) {
  PlanBuffer b = planBuffer(PlanBuffer::Scratch, std::move(name), std::move(shape));
  b.region = std::move(region);
  b.depth = depth;
  b.space = "l1";
  return b;
}
Expr at(const std::string& name, std::vector<Expr> index) {
  return load(name, DType::F32, std::move(index));
}
Expr acc(const std::string& name) { return var(name, DType::F32); }

std::vector<float> random(size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> dist(-1, 1);
  std::vector<float> out(n);
  for (float& x : out) x = dist(engine);
  return out;
}

int64_t elementsOf(const PlanBuffer& b) { return b.type.elements(); }

std::string withoutComments(const std::string& text) {
  std::istringstream lines(text);
  std::string out;
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of(' ') == std::string::npos ||
        line[line.find_first_not_of(' ')] != '#')
      out += line + "\n";
  return out;
}

/// Runs the plan naive and scheduled for several targets, in two orders of the tiles; gives each result to `check`.
void everyWay(const GroupPlan& plan, Arrays arrays,
              const std::function<void(const Arrays&, const std::string&)>& check) {
  for (const char* target : {"naive", "cpu:x86-64", "cpu:avx2", "cpu:avx512", "test:sm_80"}) {
    const bool scheduled = std::string(target) != "naive";
    const Target machine = findTarget(scheduled ? target : "cpu:avx2");
    const LoweredKernel k = lowerGroup(plan, machine, "k", scheduled);
    SCOPED_TRACE(toText(k.module));
    EXPECT_EQ(toText(parseKernels(toText(k.module), "lowered")), withoutComments(toText(k.module)));
    for (const KernelFault& fault : faultsOf(k.module, {&machine})) ADD_FAILURE() << fault.what();
    for (const PackedConstant& p : k.packed)
      arrays[p.param] = packedFloats(p, arrays.at(p.source), plan.buffer(p.source).type);
    for (const PlanBuffer& b : plan.buffers)
      if (b.kind == PlanBuffer::Output) arrays[b.name].assign(elementsOf(b), NAN);
    std::map<std::string, EvalBuffer> buffers;
    for (const Param& p : k.kernel().params)
      buffers[p.buffer.name] = {arrays.at(p.buffer.name).data(),
                                static_cast<int64_t>(arrays.at(p.buffer.name).size())};
    KernelEvalOptions options;
    options.order = scheduled ? KernelEvalOptions::Shuffled : KernelEvalOptions::Forward;
    KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
    check(arrays, target);
  }
}

const Expr i0 = var("i0"), i1 = var("i1"), i2 = var("i2"), i3 = var("i3"), i4 = var("i4"),
           i5 = var("i5"), t0 = var("t0"), t1 = var("t1");

TEST(Lower, ProductWithTailsInRowsAndColumns) {
  const int64_t m = 29, n = 75, d = 7;
  GroupPlan p;
  p.buffers = {
      planBuffer(PlanBuffer::Input, "x", {m, d}), planBuffer(PlanBuffer::Constant, "w", {d, n}),
      planBuffer(PlanBuffer::Constant, "b", {n}), planBuffer(PlanBuffer::Output, "y", {m, n})};
  Stage s;
  s.depth = 1;
  s.contraction = true;
  s.axes = {
      {"i0", m, false, {t0 * Expr(15), 15}}, {"i1", n, false, {0, n}}, {"i2", d, true, {0, d}}};
  s.accumulators = {
      {builtinCombine("sum", DType::F32), {at("x", {i0, i2}) * at("w", {i2, i1})}, {"a0"}}};
  s.outer = {{"y", {i0, i1}, max(acc("a0") + at("b", {i1}), imm(DType::F32, 0)), "", {}}};
  p.lists = {{{{"t0", m, 15, true}}, {s}, -1}};
  everyWay(p, {{"x", random(m * d, 1)}, {"w", random(d * n, 2)}, {"b", random(n, 3)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t i = 0; i < m; i++)
               for (int64_t j = 0; j < n; j++) {
                 double want = a.at("b")[j];
                 for (int64_t k = 0; k < d; k++)
                   want += double(a.at("x")[i * d + k]) * a.at("w")[k * n + j];
                 ASSERT_NEAR(a.at("y")[i * n + j], std::max(want, 0.0), 1e-5)
                     << how << " " << i << " " << j;
               }
           });
}

/// Two rows of [m, n] a tile: their maxima, then exponentials and sums, then quotients.
GroupPlan softmaxPlan(int64_t m, int64_t n) {
  const StageAxis row{"i0", m, false, {t0 * Expr(2), 2}}, column{"i1", n, true, {0, n}};
  StageAxis space = column;
  space.reduce = false;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {m, n}),
               planBuffer(PlanBuffer::Output, "y", {m, n}),
               scratch("top", {m, 1}, {{t0 * Expr(2), 2}, {0, 1}}, 1),
               scratch("e", {m, n}, {{t0 * Expr(2), 2}, {0, n}}, 1),
               scratch("sum", {m, 1}, {{t0 * Expr(2), 2}, {0, 1}}, 1)};
  Stage top{{row, column},
            {},
            {{builtinCombine("max", DType::F32), {at("x", {i0, i1})}, {"a0"}}},
            {{"top", {i0, 0}, acc("a0"), "", {}}},
            false,
            1,
            ""};
  const Expr e = apply(Op::Exp, {at("x", {i0, i1}) - at("top", {i0, 0})});
  Stage sum{{row, column},
            {{"e", {i0, i1}, e, "", {}}},
            {{builtinCombine("sum", DType::F32), {e}, {"a1"}}},
            {{"sum", {i0, 0}, acc("a1"), "", {}}},
            false,
            1,
            ""};
  Stage quotient{{row, space},
                 {{"y", {i0, i1}, at("e", {i0, i1}) / at("sum", {i0, 0}), "", {}}},
                 {},
                 {},
                 false,
                 1,
                 ""};
  p.lists = {{{{"t0", m, 2, true}}, {top, sum, quotient}, -1}};
  return p;
}

void checkSoftmax(const Arrays& a, int64_t m, int64_t n, const std::string& how) {
  for (int64_t i = 0; i < m; i++) {
    double total = 0;
    for (int64_t j = 0; j < n; j++) total += std::exp(a.at("x")[i * n + j]);
    for (int64_t j = 0; j < n; j++)
      ASSERT_NEAR(a.at("y")[i * n + j], std::exp(a.at("x")[i * n + j]) / total, 1e-6) << how;
  }
}

TEST(Lower, SoftmaxRows) {
  everyWay(softmaxPlan(5, 71), {{"x", random(5 * 71, 4)}},
           [](const Arrays& a, const std::string& how) { checkSoftmax(a, 5, 71, how); });
}

TEST(Lower, RowsThatAreReadAgainFetchThoseOfTheNextTile) {
  Target near = findTarget("cpu:avx2");
  for (Level& level : near.levels)
    if (level.name == "l2") level.bytes = 40 << 10;  // less than x, more than eight tiles
  const int64_t m = 21, n = 600;
  const auto kernel = [&](const Target& t) { return lowerGroup(softmaxPlan(m, n), t, "k"); };
  const LoweredKernel k = kernel(near);
  const std::string text = toText(k.module);
  EXPECT_EQ(toText(kernel(findTarget("cpu:avx2")).module).find("copy "), std::string::npos);
  const size_t fetch = text.find("copy x[i0 + t0 * 2 + 2, i1b * 32 + next] for next in 32");
  ASSERT_NE(fetch, std::string::npos) << text;
  EXPECT_GT(fetch, text.find("max=")) << "the first reader fetches";
  for (const KernelFault& fault : faultsOf(k.module, {&near})) ADD_FAILURE() << fault.what();
  Arrays arrays = {{"x", random(m * n, 4)}, {"y", std::vector<float>(m * n, NAN)}};
  std::map<std::string, EvalBuffer> buffers;
  for (auto& [name, data] : arrays) buffers[name] = {data.data(), m * n};
  KernelEvaluator(k.module, k.kernel()).run(buffers, {}, {});
  checkSoftmax(arrays, m, n, "with fetches");
}

TEST(Lower, ReductionAcrossTiles) {
  const int64_t n = 1000;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {n}), planBuffer(PlanBuffer::Output, "y", {1})};
  Stage s;
  s.depth = 1;
  s.axes = {{"i0", n, true, {t0 * Expr(150), 150}}};
  s.accumulators = {{builtinCombine("sum", DType::F32), {at("x", {i0}) * at("x", {i0})}, {"a0"}}};
  s.outer = {{"y", {0}, apply(Op::Sqrt, {acc("a0")}), "", {}}};
  p.lists = {{{{"t0", n, 150, true}}, {s}, 0}};
  everyWay(p, {{"x", random(n, 5)}}, [&](const Arrays& a, const std::string& how) {
    double want = 0;
    for (float x : a.at("x")) want += double(x) * x;
    ASSERT_NEAR(a.at("y")[0], std::sqrt(want), 1e-5) << how;
  });
}

/// x in channels-last order, padded rows in scratch, then a 3x3 convolution to channels-last output.
TEST(Lower, PaddedConvolutionChannelsLast) {
  const int64_t ci = 3, co = 21, h = 7, w = 9;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {ci, h, w}, {1, 2, 0}),
               planBuffer(PlanBuffer::Constant, "k", {co, ci, 3, 3}),
               planBuffer(PlanBuffer::Output, "y", {co, h, w}, {1, 2, 0}),
               scratch("pad", {ci, h + 2, w + 2}, {{0, ci}, {t0 * Expr(3), 5}, {0, w + 2}}, 1)};
  Stage pad;
  pad.depth = 1;
  pad.axes = {{"i0", ci, false, {0, ci}},
              {"i1", h + 2, false, {t0 * Expr(3), 5}},
              {"i2", w + 2, false, {0, w + 2}}};
  const Expr in =
      logicalAnd(logicalAnd(le(1, i1), lt(i1, h + 1)), logicalAnd(le(1, i2), lt(i2, w + 1)));
  pad.inner = {
      {"pad", {i0, i1, i2}, select(in, at("x", {i0, i1 - 1, i2 - 1}), imm(DType::F32, 0)), "", {}}};
  Stage s;
  s.depth = 1;
  s.contraction = true;
  s.axes = {{"i0", co, false, {0, co}}, {"i1", h, false, {t0 * Expr(3), 3}},
            {"i2", w, false, {0, w}},   {"i3", ci, true, {0, ci}},
            {"i4", 3, true, {0, 3}},    {"i5", 3, true, {0, 3}}};
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {at("pad", {i3, i1 + i4, i2 + i5}) * at("k", {i0, i3, i4, i5})},
                     {"a0"}}};
  s.outer = {{"y", {i0, i1, i2}, acc("a0"), "", {}}};
  p.lists = {{{{"t0", h, 3, true}}, {pad, s}, -1}};
  everyWay(p, {{"x", random(ci * h * w, 6)}, {"k", random(co * ci * 9, 7)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t o = 0; o < co; o++)
               for (int64_t y = 0; y < h; y++)
                 for (int64_t x = 0; x < w; x++) {
                   double want = 0;
                   for (int64_t c = 0; c < ci; c++)
                     for (int64_t i = 0; i < 3; i++)
                       for (int64_t j = 0; j < 3; j++) {
                         const int64_t yy = y + i - 1, xx = x + j - 1;
                         if (yy >= 0 && yy < h && xx >= 0 && xx < w)
                           want += double(a.at("x")[(yy * w + xx) * ci + c]) *
                                   a.at("k")[((o * ci + c) * 3 + i) * 3 + j];
                       }
                   ASSERT_NEAR(a.at("y")[(y * w + x) * co + o], want, 1e-5) << how;
                 }
           });
}

/// Neither operand is constant and the columns' operand is transposed: the kernel packs it itself, once a head, outside of the row blocks.
TEST(Lower, TransposedOperandIsPackedOnceAHead) {
  const int64_t heads = 2, m = 10, n = 37, d = 5;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "q", {heads, m, d}),
               planBuffer(PlanBuffer::Input, "k", {heads, n, d}),
               planBuffer(PlanBuffer::Output, "y", {heads, m, n})};
  Stage s;
  s.depth = 2;
  s.contraction = true;
  s.axes = {{"i0", heads, false, {t0, 1}},
            {"i1", m, false, {t1 * Expr(4), 4}},
            {"i2", n, false, {0, n}},
            {"i3", d, true, {0, d}}};
  s.accumulators = {
      {builtinCombine("sum", DType::F32), {at("q", {i0, i1, i3}) * at("k", {i0, i2, i3})}, {"a0"}}};
  s.outer = {{"y", {i0, i1, i2}, acc("a0"), "", {}}};
  p.lists = {{{{"t0", heads, 1, true}, {"t1", m, 4, false}}, {s}, -1}};
  everyWay(p, {{"q", random(heads * m * d, 8)}, {"k", random(heads * n * d, 9)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t b = 0; b < heads; b++)
               for (int64_t i = 0; i < m; i++)
                 for (int64_t j = 0; j < n; j++) {
                   double want = 0;
                   for (int64_t c = 0; c < d; c++)
                     want +=
                         double(a.at("q")[(b * m + i) * d + c]) * a.at("k")[(b * n + j) * d + c];
                   ASSERT_NEAR(a.at("y")[(b * m + i) * n + j], want, 1e-5) << how;
                 }
           });
}

/// Columns that a tile begins in the midst of a panel: from a fixed place, or each tile from another one.
TEST(Lower, PanelsBeginWhereTheTileDoes) {
  const int64_t m = 6, n = 100, d = 5;
  struct Part {
    int64_t tile;
    Region columns;
    int64_t low, high;  // of all tiles
  };
  const auto tiles = [&](int64_t of) { return Part{of, {t0 * Expr(of), of}, 0, n}; };
  for (const Part& part : {Part{n, {Expr(1), 4}, 1, 5}, Part{n, {Expr(3), n - 3}, 3, n}, tiles(18),
                           tiles(33), tiles(48)}) {
    const int64_t width = part.high - part.low;
    GroupPlan p;
    p.buffers = {planBuffer(PlanBuffer::Input, "q", {m, d}),
                 planBuffer(PlanBuffer::Input, "k", {n, d}),
                 planBuffer(PlanBuffer::Output, "y", {m, width})};
    Stage s;
    s.depth = 1;
    s.contraction = true;
    s.axes = {{"i0", m, false, {0, m}}, {"i1", n, false, part.columns}, {"i2", d, true, {0, d}}};
    s.accumulators = {
        {builtinCombine("sum", DType::F32), {at("q", {i0, i2}) * at("k", {i1, i2})}, {"a0"}}};
    s.outer = {{"y", {i0, i1 - Expr(part.low)}, acc("a0"), "", {}}};
    p.lists = {{{{"t0", n, part.tile, true}}, {s}, -1}};
    everyWay(p, {{"q", random(m * d, 8)}, {"k", random(n * d, 9)}},
             [&](const Arrays& a, const std::string& how) {
               for (int64_t i = 0; i < m; i++)
                 for (int64_t j = 0; j < width; j++) {
                   double want = 0;
                   for (int64_t c = 0; c < d; c++)
                     want += double(a.at("q")[i * d + c]) * a.at("k")[(j + part.low) * d + c];
                   ASSERT_NEAR(a.at("y")[i * width + j], want, 1e-5)
                       << how << " tiles of " << part.tile << " from " << part.low;
                 }
             });
  }
}

/// A sum of one element beside an operand that has an order: there is nothing to give it.
TEST(Lower, OneElementHasNoOrder) {
  std::vector<PlanBuffer> buffers = {planBuffer(PlanBuffer::Input, "x", {4, 9}, {1, 0}),
                                     planBuffer(PlanBuffer::Scratch, "one", {}),
                                     planBuffer(PlanBuffer::Scratch, "copy", {4, 9})};
  Stage sum, copy;
  sum.axes = {{"i0", 4, true, {0, 4}}, {"i1", 9, true, {0, 9}}};
  sum.accumulators = {{builtinCombine("sum", DType::F32), {at("x", {i0, i1})}, {"a0"}}};
  sum.outer = {{"one", {}, acc("a0"), "", {}}};
  copy.axes = {{"i0", 4, false, {0, 4}}, {"i1", 9, false, {0, 9}}};
  copy.inner = {{"copy", {i0, i1}, at("x", {i0, i1}), "", {}}};
  spreadOrders(buffers, {sum, copy});
  EXPECT_TRUE(buffers[1].order.empty());
  EXPECT_EQ(buffers[2].order, (std::vector<int>{1, 0}));
}

/// Channels-last to channels-first, as a map and behind a product: no extent is a multiple of the lanes.
TEST(Lower, BlocksAreTransposedOnTheWayOut) {
  const int64_t c = 21, n = 63, d = 19;
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {c, n}, {1, 0}),
               planBuffer(PlanBuffer::Input, "w", {d, n}, {1, 0}),
               planBuffer(PlanBuffer::Constant, "k", {c, d}),
               planBuffer(PlanBuffer::Output, "y", {c, n}),
               planBuffer(PlanBuffer::Output, "z", {c, n})};
  const StageAxis channel{"i0", c, false, {0, c}}, place{"i1", n, false, {t0 * Expr(21), 21}};
  Stage map;
  map.depth = 1;
  map.axes = {channel, place};
  map.inner = {{"y", {i0, i1}, at("x", {i0, i1}) * imm(DType::F32, 2), "", {}}};
  Stage product;
  product.depth = 1;
  product.contraction = true;
  product.axes = {channel, place, {"i2", d, true, {0, d}}};
  product.accumulators = {
      {builtinCombine("sum", DType::F32), {at("w", {i2, i1}) * at("k", {i0, i2})}, {"a0"}}};
  product.outer = {{"z", {i0, i1}, acc("a0") * imm(DType::F32, 3), "", {}}};
  p.lists = {{{{"t0", n, 21, true}}, {map, product}, -1}};
  EXPECT_TRUE(chooseStage(p, p.lists[0], map, findTarget("cpu:avx512")).across);
  EXPECT_TRUE(chooseStage(p, p.lists[0], product, findTarget("cpu:avx512")).across);
  everyWay(p, {{"x", random(c * n, 6)}, {"w", random(d * n, 7)}, {"k", random(c * d, 8)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t i = 0; i < c; i++)
               for (int64_t j = 0; j < n; j++) {
                 ASSERT_EQ(a.at("y")[i * n + j], 2 * a.at("x")[j * c + i]) << how;
                 double want = 0;
                 for (int64_t k = 0; k < d; k++)
                   want += double(a.at("w")[j * d + k]) * a.at("k")[i * d + k];
                 ASSERT_NEAR(a.at("z")[i * n + j], 3 * want, 1e-5) << how << " " << i << " " << j;
               }
           });
}

/// A product that adds to what is there: rows that blocks don't divide must not be added twice.
TEST(Lower, UpdatedRowsAreComputedOnce) {
  const int64_t m = 29, n = 40, d = 6;
  GroupPlan p;
  p.buffers = {
      planBuffer(PlanBuffer::Input, "x", {m, d}), planBuffer(PlanBuffer::Constant, "w", {d, n}),
      planBuffer(PlanBuffer::Output, "y", {m, n}), scratch("s", {m, n}, {{0, m}, {0, n}}, 0)};
  const StageAxis row{"i0", m, false, {0, m}}, column{"i1", n, false, {0, n}};
  Stage one, add, out;
  one.axes = add.axes = out.axes = {row, column};
  one.inner = {{"s", {i0, i1}, imm(DType::F32, 1), "", {}}};
  add.axes.push_back({"i2", d, true, {0, d}});
  add.contraction = true;
  add.accumulators = {
      {builtinCombine("sum", DType::F32), {at("x", {i0, i2}) * at("w", {i2, i1})}, {"a0"}}};
  add.outer = {{"s", {i0, i1}, at("s", {i0, i1}) + acc("a0"), "", {}}};
  out.inner = {{"y", {i0, i1}, at("s", {i0, i1}), "", {}}};
  p.lists = {{{}, {one, add, out}, -1}};
  everyWay(p, {{"x", random(m * d, 9)}, {"w", random(d * n, 10)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t i = 0; i < m; i++)
               for (int64_t j = 0; j < n; j++) {
                 double want = 1;
                 for (int64_t k = 0; k < d; k++)
                   want += double(a.at("x")[i * d + k]) * a.at("w")[k * n + j];
                 ASSERT_NEAR(a.at("y")[i * n + j], want, 1e-5) << how << " " << i << " " << j;
               }
           });
}

TEST(Lower, AxesThatAreOneInMemoryBecomeOne) {
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {4, 6, 5, 7}),
               planBuffer(PlanBuffer::Constant, "b", {6}),
               planBuffer(PlanBuffer::Output, "y", {4, 6, 5, 7})};
  Stage s;
  s.depth = 1;
  s.axes = {{"i0", 4, false, {t0, 1}},
            {"i1", 6, false, {0, 6}},
            {"i2", 5, false, {0, 5}},
            {"i3", 7, false, {0, 7}}};
  s.inner = {{"y", {i0, i1, i2, i3}, at("x", {i0, i1, i2, i3}) * at("b", {i1}), "", {}}};
  p.lists = {{{{"t0", 4, 1, true}}, {s}, -1}};
  const GroupPlan prepared = prepare(p, findTarget("cpu:avx2"));
  EXPECT_EQ(prepared.lists[0].stages[0].axes.size(), 2u);  // channels; rows and columns together
  everyWay(p, {{"x", random(840, 10)}, {"b", random(6, 11)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t i = 0; i < 840; i++)
               ASSERT_EQ(a.at("y")[i], a.at("x")[i] * a.at("b")[i / 35 % 6]) << how;
           });
  const LoweredKernel k = lowerGroup(p, findTarget("cpu:avx2"), "k");
  EXPECT_EQ(k.inPlace, (std::vector<std::pair<std::string, std::string>>{{"y", "x"}}));
}

/// Two parts of one result, neither of which is there in every tile; loops are named by words that the language reserves.
TEST(Lower, PartsThatATileMayNotReach) {
  GroupPlan p;
  p.buffers = {planBuffer(PlanBuffer::Input, "x", {37, 3}),
               planBuffer(PlanBuffer::Input, "z", {43, 3}),
               planBuffer(PlanBuffer::Output, "y", {80, 3})};
  const Expr i8 = var("i8");
  Stage first, second;
  first.depth = second.depth = 1;
  first.axes = {{"i8", 37, false, {t0 * Expr(20), 20}}, {"i4", 3, false, {0, 3}}};
  first.inner = {{"y", {i8, i4}, at("x", {i8, i4}) * imm(DType::F32, 2), "", {}}};
  second.axes = {{"i8", 43, false, {t0 * Expr(20) - Expr(37), 20}}, {"i4", 3, false, {0, 3}}};
  second.inner = {{"y", {i8 + Expr(37), i4}, at("z", {i8, i4}), "", {}}};
  p.lists = {{{{"t0", 80, 20, true}}, {first, second}, -1}};
  everyWay(p, {{"x", random(111, 12)}, {"z", random(129, 13)}},
           [&](const Arrays& a, const std::string& how) {
             for (int64_t i = 0; i < 240; i++)
               ASSERT_EQ(a.at("y")[i], i < 111 ? a.at("x")[i] * 2 : a.at("z")[i - 111])
                   << how << " " << i;
           });
}

}  // namespace
}  // namespace tektite
