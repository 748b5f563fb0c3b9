// Every edge that isn't fused has one reason from the closed list; where the graph is edited so that the reason goes away, the edge is fused.
#include "fusion/fuse.h"
#include "fuzz/random_graph.h"
#include "ir/builder.h"
#include "passes/pass.h"

namespace tektite {
namespace {

/// A producer and a consumer alone, all else they read as inputs: nothing is left that could be in their way.
Graph alone(const Graph& g, const Edge& e) {
  Graph out;
  std::map<Value, Value> to;
  const auto add = [&](int n) {
    Node copy = g.nodes[static_cast<size_t>(n)];
    for (Value& v : copy.operands) {
      if (!to.count(v)) {
        Node leaf = g.node(v);
        if (!leaf.as<Const>()) leaf.kind = Input{};
        leaf.operands.clear();
        leaf.results = {g.type(v)};
        to[v] = out.add(std::move(leaf));
      }
      v = to.at(v);
    }
    const size_t results = copy.results.size();
    const Value first = out.add(std::move(copy));
    for (size_t r = 0; r < results; r++)
      to[Value{n, static_cast<int>(r)}] = {first.node, static_cast<int>(r)};
  };
  add(e.from.node);
  add(e.to);
  out.outputs = {to.at(Value{e.to, 0})};
  return out;
}
bool isInherent(Reason r) {  // of the two nodes, wherever they stand
  return r == Reason::ControlFlow || r == Reason::OpaqueCall || r == Reason::TargetLacks ||
         r == Reason::NeedsWholeProducer || r == Reason::TooBigForLevel;
}

TEST(Reasons, EachUnfusedEdgeOfARandomGraphHasOneThatAnEditTakesAway) {
  int unfused = 0, freed = 0;
  for (uint64_t seed = 1; seed <= 15; seed++) {
    RandomGraphOptions shape;
    shape.nodes = 500;
    shape.mostElements = 1 << 16;
    const Graph g = runPasses(randomGraph(seed, shape), {});
    const Target target = findTarget("cpu:avx2");
    Target dear = target;  // of launches
    dear.launchSeconds = 1;
    for (const Edge& e : fuse(g, target, {}).ledger.edges) {
      ASSERT_EQ(e.verdict == Verdict::Unfused, e.refusal.reason != Reason::None)
          << e.fromName << " -> " << e.toName;
      if (e.verdict != Verdict::Unfused) continue;
      ASSERT_NE(e.refusal.reason, Reason::UserFence);
      EXPECT_FALSE(toText(e.refusal).empty());
      unfused++;
      if (isInherent(e.refusal.reason)) continue;
      const Graph two = alone(g, e);
      for (const Edge& now : fuse(two, dear, {}).ledger.edges)
        EXPECT_NE(now.verdict, Verdict::Unfused)
            << "seed " << seed << ": " << e.fromName << " -> " << e.toName << ": was "
            << toText(e.refusal) << ", is " << toText(now.refusal) << "\n"
            << toText(two);
      freed++;
    }
  }
  EXPECT_GT(unfused, 15);
  EXPECT_GT(freed, 3);
}

TEST(Reasons, ACutIsAReasonAndGoesWithIt) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64}});
  b.origin = "first";
  const Value y = b.map("exp(a)", {x});
  b.origin = "second";
  b.graph.outputs = {b.map("a + 1", {y})};
  FusionOptions cut;
  cut.cut = {{"first", "second"}};
  const Target target = findTarget("cpu:avx2");
  EXPECT_EQ(fuse(b.graph, target, cut).ledger.edges.at(0).refusal.reason, Reason::UserFence);
  EXPECT_EQ(fuse(b.graph, target, {}).ledger.edges.at(0).verdict, Verdict::Inlined);
}

/// Two kernels that read one value, were they one, would keep both their large operands alive.
TEST(Reasons, MemoryStaysWithinThatOfKernelsApart) {
  Builder b;
  const Value small = b.input("s", {DType::F32, {1, 1024}}), i = b.input("i", {DType::I64, {1024}});
  const auto scattered = [&](const char* body) {  // a kernel of its own, with a large result
    const Value base = b.map(body, {b.broadcast(small, {1024, 1024})});
    const Value u = b.update(base, {i}, b.broadcast(small, {1024, 1024}),
                             {load("$1", DType::I64, {var("d0")}), var("d1")}, "sum");
    return b.reduce("sum", b.map("a * b", {u, small}), {1});
  };
  const Value first = scattered("a + 1");
  Value second = scattered("a + 2");
  b.graph.outputs = {first, second};
  for (size_t n = 0; n < b.graph.nodes.size(); n++) b.graph.nodes[n].origin = fmt::format("n{}", n);
  Target target = findTarget("gpu-class");
  FusionOptions apart;
  apart.unfused = true;
  const Fused fused = fuse(b.graph, target, {}), unfused = fuse(b.graph, target, apart);
  EXPECT_LE(fused.peakBytes, unfused.peakBytes);
  EXPECT_GT(fused.peakBytes, 0);
}

TEST(Reasons, MemoryOfRandomGraphsStaysWithinThatOfKernelsApart) {
  for (uint64_t seed = 0; seed < 60; seed++) {
    RandomGraphOptions shape;
    shape.nodes = 40;
    const Graph g = runPasses(randomGraph(seed, shape), {});
    FusionOptions apart;
    apart.unfused = true;
    for (const char* name : {"cpu:avx2", "gpu-class"}) {
      const Target target = findTarget(name);
      EXPECT_LE(fuse(g, target, {}).peakBytes, fuse(g, target, apart).peakBytes)
          << seed << " " << name;
    }
  }
}

}  // namespace
}  // namespace tektite
