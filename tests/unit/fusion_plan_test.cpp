#include <algorithm>
#include <random>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "lower/lower.h"
#include "lowered_executor.h"
#include "plan_executor.h"

namespace tektite {
namespace {

struct Case {
  Builder b;
  GroupPlan plan;
  Value in(const std::string& name, std::vector<Expr> shape) {
    return b.input(name, {DType::F32, std::move(shape)});
  }
  const GroupPlan& planned(std::vector<Value> outputs) {
    b.graph.outputs = std::move(outputs);
    const PlanResult r = planGroup(b.graph, findTarget("cpu:avx2"), {});
    EXPECT_TRUE(r.plan) << toText(r.refusal);
    return plan = *r.plan;
  }
  size_t stages() const { return plan.lists.at(0).stages.size(); }
  size_t scratch() const {
    return static_cast<size_t>(
        std::ranges::count(plan.buffers, PlanBuffer::Scratch, &PlanBuffer::kind));
  }

  /// The plan's results against those of one plan a node, on random inputs.
  void check() {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-2, 2);
    std::map<Value, TestTensor> values, leaves;
    for (int n = 0; n < static_cast<int>(b.graph.nodes.size()); n++) {
      const Node& node = b.graph.nodes[n];
      if (node.as<Input>() || node.as<Const>()) {
        TestTensor t{node.results[0], {}, {}};
        for (int64_t i = 0; i < t.type.elements(); i++)
          t.real.push_back(uniform(random)), t.integer.push_back(i % 3);
        leaves[Value{n, 0}] = values[Value{n, 0}] = t;
        continue;
      }
      Graph one;
      std::map<Value, TestTensor> inputs;
      Node copy = node;
      for (Value& v : copy.operands) {
        const Value from = v;
        const Node& source = b.graph.nodes[from.node];
        Node leaf{
            source.as<Const>() ? source.kind : NodeKind(Input{}), {}, {b.graph.type(from)}, {}, {}};
        v = one.add(leaf);
        inputs[v] = values.at(from);
      }
      const Value result = one.add(copy);
      for (int r = 0; r < static_cast<int>(node.results.size()); r++)
        one.outputs.push_back({result.node, r});
      const PlanResult p = planGroup(one, findTarget("cpu:avx2"), {});
      const auto out = runPlan(*p.plan, one, inputs);
      for (size_t r = 0; r < out.size(); r++) values[Value{n, static_cast<int>(r)}] = out[r];
    }
    const auto got = runPlan(plan, b.graph, leaves);
    ASSERT_EQ(got.size(), b.graph.outputs.size());
    for (size_t o = 0; o < got.size(); o++) {
      const TestTensor& want = values.at(b.graph.outputs[o]);
      for (size_t i = 0; i < want.real.size(); i++)
        ASSERT_NEAR(got[o].real[i], want.real[i], 1e-9 * (1 + std::abs(want.real[i])))
            << o << " at " << i << "\n"
            << toText(plan);
    }
    for (const char* target :
         {"naive", "cpu:x86-64", "cpu:avx2", "cpu:avx512",
          "test:sm_80"}) {  // what lowering makes of the same plan, stored as f32
      const auto lowered = runLowered(plan, b.graph, leaves, target);
      for (size_t o = 0; o < got.size(); o++)
        for (size_t i = 0; i < got[o].real.size(); i++)
          ASSERT_NEAR(lowered[o].real[i], got[o].real[i], 1e-5 * (1 + std::abs(got[o].real[i])))
              << target << " " << o << " at " << i << "\n"
              << toText(lowerGroup(plan, findTarget(target[0] == 'n' ? "cpu:avx2" : target), "k",
                                   target[0] != 'n')
                            .module);
    }
  }
};

TEST(FusionPlan, RowsOfExponentials) {
  Case c;
  const Value x = c.in("x", {40, 33});
  const Value e = c.b.map("exp(a - b)", {x, c.b.reduce("max", x, {1})});
  c.planned({c.b.map("a / b", {e, c.b.reduce("sum", e, {1})})});
  EXPECT_EQ(c.stages(), 3u);
  EXPECT_EQ(c.scratch(), 3u);  // maximum, exponentials, sum
  c.check();
}

TEST(FusionPlan, FirstAxis) {
  Case c;
  const Value x = c.in("x", {24, 57});
  const Value e = c.b.map("exp(a - b)", {x, c.b.reduce("max", x, {0})});
  c.planned({c.b.map("a / b", {e, c.b.reduce("sum", e, {0})})});
  EXPECT_EQ(c.stages(), 3u);
  c.check();
}

TEST(FusionPlan, ProductWithEpilogue) {
  Case c;
  const Value x = c.in("x", {40, 24}), w = c.in("w", {24, 50}), bias = c.in("b", {1, 50});
  c.planned({c.b.map("max(a + b, 0)", {c.b.contract("mk,kn->mn", x, w), bias})});
  EXPECT_EQ(c.stages(), 1u);
  EXPECT_EQ(c.scratch(), 0u);
  EXPECT_TRUE(c.plan.lists[0].stages[0].contraction);
  c.check();
}

TEST(FusionPlan, PaddedWindowsAreBoxed) {
  Case c;
  const Value x = c.in("x", {2, 5, 9, 8}), w = c.in("w", {7, 5, 3, 3}), r = c.in("r", {2, 7, 5, 4});
  const Value windows = c.b.windows(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {5, 4}, imm(DType::F32, 0));
  c.planned({c.b.map("max(a + b, 0)", {c.b.contract("nchwij,ocij->nohw", windows, w), r})});
  EXPECT_EQ(c.stages(), 2u);
  EXPECT_EQ(c.scratch(), 1u);
  EXPECT_TRUE(c.plan.lists[0].stages[1].contraction);
  c.check();
}

/// The guard asks for less than the source has: a slice of it, padded.
TEST(FusionPlan, WindowsOfAPartAreBoxed) {
  Case c;
  const Value x = c.in("x", {5, 20}), w = c.in("w", {6, 5, 4});
  const Expr d0 = var("d0"), d1 = var("d1"), d2 = var("d2");
  const Value windows =
      c.b.view(x, {5, 8, 4}, {d0, d1 * Expr(2) + d2 - Expr(1)}, imm(DType::F32, 0),
               logicalAnd(le(2, d1 * Expr(2) + d2), lt(d1 * Expr(2) + d2, 15)));
  c.planned({c.b.contract("chi,oci->oh", windows, w)});
  EXPECT_EQ(c.stages(), 2u);
  for (const PlanBuffer& b : c.plan.buffers)
    EXPECT_LE(b.type.elements(), std::max(5 * 20, 6 * 5 * 4)) << toText(c.plan);
  EXPECT_TRUE(c.plan.lists[0].stages[1].contraction);
  c.check();
}

TEST(FusionPlan, QuantisedConstantsStaySmall) {
  Case c;
  static const std::vector<int8_t> bytes(24 * 50, 3);
  auto data = std::make_shared<ConstData>();
  data->data = bytes.data();
  data->bytes = bytes.size();
  const Value x = c.in("x", {40, 24}), w = c.b.constant({DType::I8, {24, 50}}, data);
  const Value wide = c.b.map("f32(i32(a) - 1) * 0.25", {w});
  c.planned({c.b.contract("mk,kn->mn", x, wide)});
  EXPECT_EQ(c.stages(), 1u);
  EXPECT_EQ(c.scratch(), 0u);
  EXPECT_TRUE(c.plan.lists[0].stages[0].contraction);
  c.check();
}

TEST(FusionPlan, RowsOfScoresBetweenTwoProducts) {
  Case c;
  const Value q = c.in("q", {2, 3, 20, 8}), k = c.in("k", {2, 3, 17, 8}),
              v = c.in("v", {2, 3, 17, 8}), m = c.in("m", {1, 1, 1, 17});
  const Value s = c.b.map("a * 0.125 + b", {c.b.contract("bhsd,bhtd->bhst", q, k), m});
  const Value e = c.b.map("exp(a - b)", {s, c.b.reduce("max", s, {3})});
  const Value p = c.b.map("a / b", {e, c.b.reduce("sum", e, {3})});
  const Value o = c.b.contract("bhst,bhtd->bhsd", p, v);
  c.planned({c.b.reshape(c.b.transpose(o, {0, 2, 1, 3}), {2, 20, 24})});
  EXPECT_EQ(c.stages(), 5u);
  c.check();
}

TEST(FusionPlan, SplitReduction) {
  Case c;
  const Value x = c.in("x", {1 << 13});
  c.planned({c.b.map("sqrt(a)", {c.b.reduce("sum", c.b.map("a * a", {x}), {0})})});
  EXPECT_EQ(c.stages(), 1u);
  c.check();
}

TEST(FusionPlan, SumThenNormOfRows) {
  Case c;
  const Value x = c.in("x", {40, 24}), y = c.in("y", {40, 24}), g = c.in("g", {1, 24});
  const Value s = c.b.map("a + b", {x, y});
  const Value d = c.b.map("a - b / 24", {s, c.b.reduce("sum", s, {1})});
  const Value var = c.b.reduce("sum", c.b.map("a * a", {d}), {1});
  c.planned({s, c.b.map("a / sqrt(b / 24 + 0.00001) * c", {d, var, g})});
  EXPECT_EQ(c.stages(), 3u);
  c.check();
}

TEST(FusionPlan, StencilAfterStencil) {
  Case c;
  const Value x = c.in("x", {1, 2, 20, 20});
  const Value a = c.b.reduce(
      "max", c.b.windows(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {20, 20}, imm(DType::F32, -1e30)),
      {4, 5});
  const Value squeezed = c.b.reshape(a, {1, 2, 20, 20});
  const Value t = c.b.reduce(
      "sum", c.b.windows(squeezed, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {20, 20}, imm(DType::F32, 0)),
      {4, 5});
  c.planned({c.b.reshape(t, {1, 2, 20, 20}), squeezed});
  c.check();
}

TEST(FusionPlan, ProductOfWindowsAfterAnother) {
  Case c;
  const Value x = c.in("x", {1, 2, 24, 20}), w = c.in("w", {3, 2, 3, 3}),
              w2 = c.in("w2", {2, 3, 3, 3}), bias = c.in("b", {1, 3, 1, 1});
  const Value a =
      c.b.contract("nchwij,ocij->nohw",
                   c.b.windows(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {12, 10}, imm(DType::F32, 0)), w);
  const Value r = c.b.map("max(a + b, 0)", {a, bias});
  const Value b = c.b.contract(
      "nchwij,ocij->nohw",
      c.b.windows(r, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {12, 10}, imm(DType::F32, 0)), w2);
  c.planned({c.b.map("max(a, 0)", {b})});
  EXPECT_EQ(c.stages(), 4u);
  c.check();
}

/// Of the frames' spectra all but the first are read: the product's panels begin inside the axis, where no panel of the whole axis does.
TEST(FusionPlan, PanelsOfAPartOfAnAxis) {
  Case c;
  const Value x = c.in("x", {1, 160}), w = c.in("w", {66, 1, 32});
  const Expr at = var("d2") * Expr(24) + var("d3");
  const Value frames = c.b.view(x, {1, 1, 5, 32}, {Expr(0), at}, imm(DType::F32, 0));
  const Value spectrum = c.b.contract("ncpi,oci->nop", frames, w);
  const Value real = c.b.view(spectrum, {1, 33, 4}, {Expr(0), var("d1"), var("d2") + Expr(1)});
  const Value imaginary =
      c.b.view(spectrum, {1, 33, 4}, {Expr(0), var("d1") + Expr(33), var("d2") + Expr(1)});
  c.planned({c.b.map("sqrt(a * a + b * b)", {real, imaginary})});
  c.check();
}

TEST(FusionPlan, ViewsVanish) {
  Case c;
  const Value x = c.in("x", {6, 8, 10});
  const Value t = c.b.transpose(c.b.map("exp(a)", {x}), {2, 0, 1});
  const Value r = c.b.reshape(t, {60, 8});
  const Value s = c.b.slice(r, {10, 1}, {40, 6}, {1, 1});
  c.planned({c.b.map("a + 1", {s})});
  EXPECT_EQ(c.stages(), 1u);
  EXPECT_EQ(c.scratch(), 0u);
  c.check();
}

TEST(FusionPlan, TwoResultsOfOneInput) {
  Case c;
  const Value x = c.in("x", {4, 6, 10, 10}), scale = c.in("s", {1, 6, 1, 1});
  c.planned({c.b.map("a * b", {x, scale}), c.b.map("select(a < 0.5, 0, a)", {x})});
  EXPECT_EQ(c.stages(), 1u);
  c.check();
}

/// A channels-last operand of a product with rows for results: what is kept of it lies along the rows, where the lanes run.
TEST(FusionPlan, ScratchLiesWhereAProductsLanesRun) {
  const Graph g = parseGraph(R"(graph (x: f32[1x33x40x48], w: f32[33x3x3]) {
  %2 = map (x) { exp($0) } : f32[1x33x40x48]
  %3 = view %2 (d0, d1, d2, d3, d4) -> (0, d0, d1 + d3, d2 + d4) : f32[33x38x46x3x3]
  %4 = contract %3, w chwij,cij->hw : f32[38x46]
  return %4
})",
                             "windows");
  const PlanResult r =
      planGroup(g, findTarget("cpu:avx2"), {}, Orders{{Value{0, 0}, {0, 2, 3, 1}}});
  ASSERT_TRUE(r.plan);
  int kept = 0;
  for (const PlanBuffer& b : r.plan->buffers)
    if (b.kind == PlanBuffer::Scratch && b.type.rank() == 4) {
      kept++;
      EXPECT_TRUE(b.order.empty() || b.order.back() == 3) << toText(*r.plan);
    }
  EXPECT_EQ(kept, 1) << toText(*r.plan);
}

}  // namespace
}  // namespace tektite
