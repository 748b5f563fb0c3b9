#include <gtest/gtest.h>

#include <cmath>

#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "lowered_executor.h"
#include "plan_buffer.h"

namespace tektite {
namespace {

Target smallCaches(int64_t l2) {
  Target t = findTarget("cpu:avx2");
  for (Level& level : t.levels) {
    if (level.name == "l1") level.bytes = 8 << 10;
    if (level.name == "l2") level.bytes = l2;
  }
  return t;
}

struct Product {
  int64_t m, k, n;
  bool turned = false;    ///< w is [n, k]
  bool followed = false;  ///< y = max(x w, bias of the row) in a stage of its own
  int64_t columns = 0;    ///< of a tile; 0: all
  bool constant = false;  ///< w is packed ahead
  int64_t rows = 64;      ///< of a tile
};

GroupPlan planOf(const Product& p) {
  const Expr i = var("i0"), j = var("i1"), k = var("i2");
  const auto at = [](const char* b, std::vector<Expr> index) {
    return load(b, DType::F32, std::move(index));
  };
  const Region rows{var("t0") * Expr(p.rows), p.rows};
  const Region columns =
      p.columns ? Region{var("t1") * Expr(p.columns), p.columns} : Region{0, p.n};
  Stage s;
  s.axes = {{"i0", p.m, false, rows}, {"i1", p.n, false, columns}, {"i2", p.k, true, {0, p.k}}};
  s.accumulators = {{builtinCombine("sum", DType::F32),
                     {at("x", {i, k}) * (p.turned ? at("w", {j, k}) : at("w", {k, j}))},
                     {"a"}}};
  s.outer = {{p.followed ? "z" : "y", {i, j}, var("a", DType::F32), "", {}}};
  s.contraction = true;
  s.depth = p.columns ? 2 : 1;
  GroupPlan plan;
  plan.buffers = {planBuffer(PlanBuffer::Input, "x", {p.m, p.k}),
                  planBuffer(p.constant ? PlanBuffer::Constant : PlanBuffer::Input, "w",
                             p.turned ? std::vector<Expr>{p.n, p.k} : std::vector<Expr>{p.k, p.n}),
                  planBuffer(PlanBuffer::Output, "y", {p.m, p.n})};
  TileList list{{{"t0", p.m, p.rows, true}}, {s}, -1};
  if (p.columns) list.tiles.push_back({"t1", p.n, p.columns, true});
  if (p.followed) {
    PlanBuffer z = planBuffer(PlanBuffer::Scratch, "z", {p.m, p.n});
    z.region = {rows, columns};
    z.depth = s.depth;
    z.space = "l2";
    plan.buffers.push_back(z);
    plan.buffers.push_back(planBuffer(PlanBuffer::Input, "b", {p.m}));
    Stage after = s;
    after.contraction = false;
    after.axes.pop_back();
    after.accumulators.clear();
    after.outer.clear();
    after.inner = {{"y", {i, j}, at("z", {i, j}) + at("b", {i}), "", {}}};
    list.stages.push_back(after);
  }
  plan.lists = {list};
  return plan;
}

std::string check(const Product& p, int64_t l2 = 128 << 10) {
  const Target target = smallCaches(l2);
  const GroupPlan plan = planOf(p);
  const LoweredKernel k = lowerGroup(plan, target, "k");
  const std::string text = toText(k.module);
  SCOPED_TRACE(text);
  for (const KernelFault& fault : faultsOf(k.module, {&target})) ADD_FAILURE() << fault.what();
  std::map<std::string, std::vector<float>> data;
  const auto fill = [&](const char* name, int64_t size) {
    for (int64_t i = 0; i < size; i++)
      data[name].push_back(static_cast<float>((i * 7919 + size) % 1013) / 512 - 1);
  };
  fill("x", p.m * p.k), fill("w", p.k * p.n), fill("b", p.m);
  data["y"].assign(static_cast<size_t>(p.m * p.n), NAN);
  for (const PackedConstant& c : k.packed)
    data[c.param] = packedFloats(c, data.at(c.source), plan.buffer(c.source).type);
  std::map<std::string, EvalBuffer> buffers;
  for (const Param& q : k.kernel().params)
    buffers[q.buffer.name] = {data[q.buffer.name].data(),
                              static_cast<int64_t>(data[q.buffer.name].size())};
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      double want = p.followed ? data["b"][i] : 0;
      for (int64_t d = 0; d < p.k; d++)
        want += static_cast<double>(data["x"][i * p.k + d]) *
                data["w"][p.turned ? j * p.k + d : d * p.n + j];
      EXPECT_NEAR(data["y"][i * p.n + j], want, 1e-4) << i << " " << j;
      if (testing::Test::HasFailure()) return text;
    }
  return text;
}

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

TEST(BlockProducts, StripsAndPiecesGoThroughPanels) {
  const std::string text = check({70, 400, 130});
  EXPECT_TRUE(has(text, "for strip in 3 serial") && has(text, "for deep in 2 serial") &&
              has(text, "w_panels"))
      << text;
}

TEST(BlockProducts, TransposedOperand) {
  const std::string text = check({70, 400, 130, true});
  EXPECT_TRUE(has(text, "for strip") && has(text, "for deep") && has(text, "w_panels")) << text;
}

TEST(BlockProducts, SmallOnesStayWhole) {
  const std::string text = check({70, 30, 72});
  EXPECT_FALSE(has(text, "for strip") || has(text, "for deep") || has(text, "w_panels")) << text;
}

/// Several steps of the depth are one round of its loop, where they divide it.
TEST(BlockProducts, DepthGoesByRounds) {
  EXPECT_TRUE(has(check({70, 32, 72}), "for i2_step in 4 unroll"));
  EXPECT_TRUE(has(check({70, 33, 72}), "for i2_step in 3 unroll"));
  EXPECT_FALSE(has(check({70, 31, 72}), "i2_step"));
}

TEST(BlockProducts, WithTails) {
  check({53, 291, 103});
  check({65, 301, 67, true});
}

TEST(BlockProducts, InTilesOfColumns) { check({70, 300, 200, false, false, 128}); }

/// Partial results of four pieces of the depth leave room for half of the tile's rows.
TEST(BlockProducts, RowsAreCutWherePartsAreMany) {
  const std::string text = check({70, 512, 64}, 64 << 10);
  EXPECT_TRUE(has(text, "for rows in") && has(text, "for deep")) << text;
}

/// 256 rows of 400 bytes don't stay in 128 KiB beside panels: half of them at a time do, and the constant's panels go by twice.
TEST(BlockProducts, RowsStayWhilePanelsOfConstantsGoBy) {
  Product p{300, 100, 130};
  p.constant = true;
  p.rows = 256;
  const std::string text = check(p);
  EXPECT_TRUE(has(text, "for rows in 2 serial") && !has(text, "for deep")) << text;
  p.k = 200;
  p.followed = true;
  EXPECT_TRUE(has(check(p, 300 << 10), "for rows in 4 serial"));
}

TEST(BlockProducts, RowsGoByOnceWhereOnePanelIsAll) {
  Product p{300, 100, 64};
  p.constant = true;
  p.rows = 256;
  EXPECT_FALSE(has(check(p), "for rows"));
}

/// The next panel of a constant comes while blocks of rows use this one; one that stays in L1 is not fetched again.
TEST(BlockProducts, PanelsOfConstantsAreFetchedAhead) {
  Product p{96, 100, 192};
  p.constant = true;
  p.rows = 48;
  const std::string text = check(p);
  EXPECT_TRUE(has(text, "copy @l2 <- w_panels")) << text;
  p.constant = false;
  EXPECT_FALSE(has(check(p), "copy @l2"));
  p.constant = true;
  p.k = 10;
  EXPECT_FALSE(has(check(p), "copy @l2"));
}

TEST(BlockProducts, WhatFollowsWaits) {
  const std::string text = check({70, 300, 100, true, true});
  EXPECT_TRUE(has(text, "for strip") && has(text, "for deep")) << text;
}

}  // namespace
}  // namespace tektite
