#include <algorithm>
#include <chrono>
#include <random>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "plan_executor.h"

namespace tektite {
namespace {

size_t groupsOf(const Graph& g) {
  return static_cast<size_t>(
      std::ranges::count_if(g.nodes, [](const Node& n) { return n.as<Group>() != nullptr; }));
}
std::string plansOf(const Fused& f) {
  std::string out;
  for (const Node& n : f.graph.nodes)
    if (const Group* g = n.as<Group>()) out += n.origin + "\n" + toText(*g->plan);
  for (const Edge& e : f.ledger.edges)
    out += fmt::format("{} -> {}: {} {}\n", e.fromName, e.toName, name(e.verdict),
                       e.verdict == Verdict::Unfused ? toText(e.refusal) : "");
  return out;
}

struct Model {
  Builder b;
  std::string target = "cpu:avx2";
  Value in(const std::string& name, std::vector<Expr> shape) {
    return b.input(name, {DType::F32, std::move(shape)});
  }
  Value weight(std::vector<Expr> shape) {
    TensorType t{DType::F32, std::move(shape)};
    auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(t.elements()));
    std::mt19937 random(static_cast<unsigned>(data->size()));
    for (float& f : *data) f = std::uniform_real_distribution<float>(-1, 1)(random);
    auto c = std::make_shared<ConstData>();
    c->data = data->data();
    c->bytes = data->size() * 4;
    c->owner = data;
    return b.constant(t, c);
  }
  Value soft(Value x) {
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {-1})});
    return b.map("a / b", {e, b.reduce("sum", e, {-1})});
  }
  Value normal(Value x, int64_t n) {
    const Value scale = b.splat(DType::F32, 1.0 / static_cast<double>(n));
    const Value m = b.map("a * b", {b.reduce("sum", x, {-1}), scale});
    const Value d = b.map("a - b", {x, m});
    const Value v = b.map("a * b", {b.reduce("sum", b.map("a * a", {d}), {-1}), scale});
    return b.map("a / sqrt(b + 0.00001) * c + d", {d, v, weight({n}), weight({n})});
  }
  Fused fused(std::vector<Value> outputs, bool unfused = false) {
    b.graph.outputs = std::move(outputs);
    FusionOptions o;
    o.unfused = unfused;
    return fuse(b.graph, findTarget(target), o);
  }
};

/// Runs a graph of groups with random inputs: values by the fused graph's numbering.
std::vector<TestTensor> runGroups(const Graph& g) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<TestTensor> inputs;
  for (const Value& v : g.inputs()) {
    TestTensor t{g.type(v), {}, {}};
    for (int64_t i = 0; i < t.type.elements(); i++)
      t.real.push_back(uniform(random)), t.integer.push_back(i % 3);
    inputs.push_back(t);
  }
  return tektite::runGroups(g, inputs);
}
/// One kernel a node: what fused graphs are held against.
Graph apart(Graph g) {
  for (size_t i = 0; i < g.nodes.size(); i++) g.nodes[i].origin = "n" + std::to_string(i);
  FusionOptions o;
  o.unfused = true;
  return fuse(g, findTarget("cpu:avx2"), o).graph;
}
void expectSame(const Graph& whole, const Fused& f) {
  const auto want = runGroups(apart(whole)), got = runGroups(f.graph);
  ASSERT_EQ(want.size(), got.size());
  for (size_t o = 0; o < want.size(); o++)
    for (size_t i = 0; i < want[o].real.size(); i++)
      ASSERT_NEAR(got[o].real[i], want[o].real[i], 1e-7 * (1 + std::abs(want[o].real[i])))
          << o << " at " << i << "\n"
          << plansOf(f);
}

TEST(FusionFuse, RowsBecomeOneKernel) {
  for (bool large : {true, false}) {
    Model a, b;
    const int64_t rows = large ? 4096 : 30, columns = large ? 1024 : 20;
    const Fused soft = a.fused({a.soft(a.in("x", {rows, columns}))}),
                normal = b.fused({b.normal(b.in("x", {rows, columns}), columns)});
    EXPECT_EQ(groupsOf(soft.graph), 1u);
    EXPECT_EQ(groupsOf(normal.graph), 1u);
    if (large) continue;
    expectSame(a.b.graph, soft);
    expectSame(b.b.graph, normal);
  }
}

Fused block(Model& m, int64_t s, int64_t h, int64_t d) {
  const int64_t n = h * d;
  const Value x = m.in("x", {1, s, n}), mask = m.in("m", {1, 1, 1, s});
  const auto linear = [&](Value v, int64_t from, int64_t to) {
    return m.b.map("a + b", {m.b.contract("bsk,kn->bsn", v, m.weight({from, to})), m.weight({to})});
  };
  const auto heads = [&](Value v) {
    return m.b.transpose(m.b.reshape(v, {1, s, h, d}), {0, 2, 1, 3});
  };
  const Value q = heads(linear(x, n, n)), k = heads(linear(x, n, n)), v = heads(linear(x, n, n));
  const Value scores = m.b.map("a * 0.125 + b", {m.b.contract("bhsd,bhtd->bhst", q, k), mask});
  const Value o = m.b.contract("bhst,bhtd->bhsd", m.soft(scores), v);
  const Value joined = m.b.reshape(m.b.transpose(o, {0, 2, 1, 3}), {1, s, n});
  const Value first = m.normal(m.b.map("a + b", {linear(joined, n, n), x}), n);
  const Value g = m.b.map("0.5 * a * (1 + erf(a * 0.7071))", {linear(first, n, 4 * n)});
  return m.fused({m.normal(m.b.map("a + b", {linear(g, 4 * n, n), first}), n)});
}

TEST(FusionFuse, TransformerBlock) {
  Model small, large;
  const Fused f = block(small, 10, 3, 8);
  expectSame(small.b.graph, f);
  const Fused big = block(large, 128, 12, 64);
  EXPECT_LE(groupsOf(big.graph), 8u) << plansOf(big);
}

/// Queries, keys and values of one tensor: what a product packs is its own part of it. Long rows: a tile that no near memory holds is none.
TEST(FusionFuse, AttentionOverPartsOfOneTensor) {
  const Graph g = parseGraph(R"(graph (x: f32[3136x768]) {
  %1 = view x (d0, d1, d2) -> (d1, d0 * 32 + d2) : f32[8x3136x32]
  %2 = view x (d0, d1, d2) -> (d1, d0 * 32 + d2 + 256) : f32[8x3136x32]
  %3 = view x (d0, d1, d2) -> (d1, d0 * 32 + d2 + 512) : f32[8x3136x32]
  %4 = contract %1, %2 hmd,hnd->hmn : f32[8x3136x3136]
  %5 = reduce max %4 axes=[2] : f32[8x3136x1]
  %6 = map (%4, %5) { exp($0 - $1) } : f32[8x3136x3136]
  %7 = reduce sum %6 axes=[2] : f32[8x3136x1]
  %8 = map (%6, %7) { $0 / $1 } : f32[8x3136x3136]
  %9 = contract %8, %3 hmn,hnd->hmd : f32[8x3136x32]
  return %9
})",
                             "packed");
  for (const char* target : {"cpu:avx512", "gpu-class"}) {
    const Fused f = fuse(g, findTarget(target), {});
    EXPECT_EQ(groupsOf(f.graph), 1u) << target << "\n" << plansOf(f);
  }
}

TEST(FusionFuse, ResidualOfWindows) {
  const auto build = [](Model& m, int64_t c, int64_t n) {
    const auto layer = [&](Value x) {
      const Value w = m.b.windows(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {n, n}, imm(DType::F32, 0));
      return m.b.map("a * b + c", {m.b.contract("nchwij,ocij->nohw", w, m.weight({c, c, 3, 3})),
                                   m.weight({c, 1, 1}), m.weight({c, 1, 1})});
    };
    const Value x = m.b.map("max(a, 0)", {layer(m.in("x", {1, c, n, n}))});
    const Value y = layer(m.b.map("max(a, 0)", {layer(x)}));
    return m.fused({m.b.map("max(a + b, 0)", {y, x})});
  };
  Model small, large;
  const Fused f = build(small, 4, 9);
  expectSame(small.b.graph, f);
  const Fused big = build(large, 64, 56);
  EXPECT_EQ(groupsOf(big.graph), 3u) << plansOf(big);
}

/// Channels lie side by side between layers, as a convolution's lanes want it, also where a pooling of it is stored instead of what it sums up.
TEST(FusionFuse, LayoutsFollowAProductThroughWhatIsMadeOfIt) {
  Model m;
  const auto layer = [&](Value x, int64_t from, int64_t to, int64_t n) {
    const Value w = m.b.windows(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {n, n}, imm(DType::F32, 0));
    return m.b.map("max(a, 0)", {m.b.contract("nchwij,ocij->nohw", w, m.weight({to, from, 3, 3}))});
  };
  m.b.origin = "convolution";
  const Value y = layer(m.in("x", {1, 3, 20, 20}), 3, 16, 20);
  m.b.origin = "pooling";
  const Value tiles = m.b.windows(y, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {10, 10}, imm(DType::F32, 0));
  const Value pooled = m.b.reshape(m.b.reduce("max", tiles, {4, 5}), {1, 16, 10, 10});
  m.b.origin = "next";
  m.b.graph.outputs = {layer(pooled, 16, 16, 10)};
  Target target = findTarget("cpu:avx512");
  target.cores = 2;  // more would have tiles of a few channels
  FusionOptions options;
  options.force = {{"convolution", "pooling"}};
  options.cut = {{"pooling", "next"}};
  const Fused f = fuse(m.b.graph, target, options);
  ASSERT_EQ(groupsOf(f.graph), 2u) << plansOf(f);
  for (const Node& n : f.graph.nodes)
    if (const Group* group = n.as<Group>())
      for (const PlanBuffer& b : group->plan->buffers)
        if (b.type.shape == std::vector<Expr>{1, 16, 10, 10} && b.kind == PlanBuffer::Input) {
          EXPECT_EQ(b.order, (std::vector<int>{0, 2, 3, 1})) << plansOf(f);
        }
  expectSame(m.b.graph, f);
}

/// Also where what is between them has more axes than a layer's result, as what is enlarged one axis at a time has.
TEST(FusionFuse, LayoutsFollowAxesToValuesOfOtherRanks) {
  Model m;
  const auto layer = [&](Value x, int64_t from, int64_t to) {
    const Value w = m.b.windows(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {10, 10}, imm(DType::F32, 0));
    return m.b.map("max(a, 0)", {m.b.contract("nchwij,ocij->nohw", w, m.weight({to, from, 3, 3}))});
  };
  m.b.origin = "convolution";
  const Value y = layer(m.in("x", {1, 3, 10, 10}), 3, 16);
  m.b.origin = "rows";
  const Value tiles = m.b.windows(y, {2}, {1}, {1}, {0}, {10}, imm(DType::F32, 0));
  const Value rows = m.b.reduce("sum", m.b.reshape(tiles, {1, 1, 16, 10, 10, 2}), {5});
  m.b.origin = "next";
  m.b.graph.outputs = {layer(m.b.reshape(rows, {1, 16, 10, 10}), 16, 16)};
  Target target = findTarget("cpu:avx512");
  target.cores = 2;
  FusionOptions options;
  options.cut = {{"convolution", "rows"}, {"rows", "next"}};
  const Fused f = fuse(m.b.graph, target, options);
  ASSERT_EQ(groupsOf(f.graph), 3u) << plansOf(f);
  int found = 0;
  for (const Node& n : f.graph.nodes)
    if (const Group* group = n.as<Group>())
      for (const PlanBuffer& b : group->plan->buffers)
        if (b.type.rank() > 4 && b.kind == PlanBuffer::Output) {
          EXPECT_EQ(b.order, (std::vector<int>{0, 1, 3, 4, 2, 5})) << plansOf(f);
          found++;
        }
  EXPECT_EQ(found, 1) << plansOf(f);
  expectSame(m.b.graph, f);
}

TEST(FusionFuse, DiamondsAndTwoReadersAreOneKernel) {
  Model diamond;
  const Value x = diamond.in("x", {64, 64});
  std::vector<Value> parts;
  for (int i = 0; i < 16; i++) parts.push_back(diamond.b.map(fmt::format("a * {}.5", i), {x}));
  while (parts.size() > 1) {
    std::vector<Value> joined;
    for (size_t i = 0; i < parts.size(); i += 2)
      joined.push_back(diamond.b.map("a + b", {parts[i], parts[i + 1]}));
    parts = joined;
  }
  const Fused f = diamond.fused(parts);
  EXPECT_EQ(groupsOf(f.graph), 1u);
  expectSame(diamond.b.graph, f);

  Model fibonacci;
  Value a = fibonacci.in("a", {32}), b = fibonacci.in("b", {32});
  for (int i = 0; i < 60; i++) {
    const Value c = fibonacci.b.map("a + b", {a, b});
    a = b, b = c;
  }
  EXPECT_EQ(groupsOf(fibonacci.fused({b}).graph), 1u);

  Model two;  // one input, two results of equal axes
  const Value y = two.in("y", {8, 16, 32, 32});
  const Fused g =
      two.fused({two.b.map("a * b + c", {y, two.weight({16, 1, 1}), two.weight({16, 1, 1})}),
                 two.b.map("select(a < 0.5, 0, a)", {y})});
  ASSERT_EQ(groupsOf(g.graph), 1u);
  for (const Node& n : g.graph.nodes) {
    const Group* group = n.as<Group>();
    if (group) {
      EXPECT_EQ(group->plan->lists[0].stages.size(), 1u) << plansOf(g);
    }
  }
}

TEST(FusionFuse, EveryUnfusedEdgeHasAReason) {
  Model m;
  const Fused f = block(m, 128, 12, 64);
  for (const Edge& e : f.ledger.edges) {
    EXPECT_EQ(e.verdict == Verdict::Unfused, e.refusal.reason != Reason::None) << plansOf(f);
    EXPECT_NE(e.refusal.reason, Reason::UserFence) << plansOf(f);
  }
}

TEST(FusionFuse, ScatterIsAKernelOfItsOwn) {
  Model m;
  const Value base = m.in("x", {2, 6}), values = m.in("v", {2, 4});
  const Value at = m.b.integers({0, 5, 0, 3});
  const Value e = m.b.map("exp(a)", {values});
  const Value u =
      m.b.update(base, {at}, e, {var("d0"), load("$1", DType::I64, {var("d1")})}, "sum");
  const Fused f = m.fused({m.b.map("a * 2", {u})});
  EXPECT_EQ(groupsOf(f.graph), 3u) << plansOf(f);
  std::mt19937 random(7);  // as runGroups fills its inputs
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> x(12), v(8);
  for (double& d : x) d = uniform(random);
  for (double& d : v) d = uniform(random);
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 4; c++)
      x[static_cast<size_t>(6 * r + std::vector{0, 5, 0, 3}[static_cast<size_t>(c)])] +=
          std::exp(v[static_cast<size_t>(4 * r + c)]);
  const auto out = runGroups(f.graph)[0].real;
  for (size_t i = 0; i < 12; i++) EXPECT_NEAR(out[i], 2 * x[i], 1e-12) << i << plansOf(f);
}

TEST(FusionFuse, ChainsPlanInLinearTime) {
  double last = 0;
  for (int n : {100, 1000, 10000}) {
    Model m;
    Value x = m.in("x", {1 << 16});
    for (int i = 0; i < n; i++) x = m.b.map("a * 1.5 + 1", {x});
    const auto start = std::chrono::steady_clock::now();
    const Fused f = m.fused({x});
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LE(groupsOf(f.graph), static_cast<size_t>(1 + n / 300));
    last = seconds;
  }
  EXPECT_LT(last, 10);  // bench measures; this only catches a blow-up
}

}  // namespace
}  // namespace tektite
