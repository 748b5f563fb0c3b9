#include <gtest/gtest.h>

#include <algorithm>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "support/check.h"

namespace tektite {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

/// a -> b -> c, a -> c, elementwise: one kernel where nothing stands against it.
Graph chain() {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64, 128}});
  const auto map = [&](const char* text, const std::vector<Value>& operands, const char* name) {
    b.origin = name;
    return b.map(text, operands);
  };
  const Value first = map("exp(a)", {x}, "a"), second = map("tanh(a) * b", {first, x}, "b");
  b.graph.outputs = {map("tanh(a) + b", {second, first}, "c")};
  return b.graph;
}
/// A product into which a long softmax follows: apart on a CPU whose caches don't hold its rows.
Graph productAndSoftmax() {
  Builder b;
  const Value x = b.input("x", {DType::F32, {4, 64}}),
              w = b.input("w", {DType::F32, {64, 1 << 20}});
  b.origin = "product";
  const Value y = b.contract("ij,jk->ik", x, w);
  b.origin = "largest";
  const Value m = b.reduce("max", y, {1});
  b.origin = "shifted";
  b.graph.outputs = {b.map("a - b", {y, m})};
  return b.graph;
}
Fused fused(const Graph& g, const Names& cut, const Names& force = {}) {
  FusionOptions o;
  o.cut = cut;
  o.force = force;
  return fuse(g, findTarget("cpu:avx2"), o);
}
size_t groupsOf(const Fused& f) {
  return static_cast<size_t>(
      std::ranges::count_if(f.graph.nodes, [](const Node& n) { return n.as<Group>() != nullptr; }));
}
Reason reasonOf(const Fused& f, const std::string& a, const std::string& b) {
  const std::vector<Edge> edges = f.ledger.between(a, b);
  EXPECT_EQ(edges.size(), 1u);
  return edges.empty() ? Reason::None : edges[0].refusal.reason;
}
std::string errorOf(const Graph& g, const Names& cut, const Names& force) {
  try {
    fused(g, cut, force);
  } catch (const UserError& e) {
    return e.what();
  }
  return "none";
}

TEST(Fences, CutKeepsTwoNodesApart) {
  const Graph g = chain();
  EXPECT_EQ(groupsOf(fused(g, {})), 1u);
  const Fused f = fused(g, {{"a", "b"}});
  EXPECT_EQ(groupsOf(f), 2u);
  EXPECT_EQ(reasonOf(f, "a", "b"), Reason::UserFence);
  EXPECT_EQ(reasonOf(f, "b", "c"), Reason::None);
}

TEST(Fences, CutHoldsBetweenNodesThatShareNoEdge) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {4096}});
  Value v = x;
  for (const char* name : {"p", "q", "r"}) {
    b.origin = name;
    v = b.map("exp(a)", {v});
  }
  b.graph.outputs = {v};
  EXPECT_EQ(groupsOf(fused(b.graph, {})), 1u);
  EXPECT_EQ(groupsOf(fused(b.graph, {{"r", "p"}})), 2u);
}

TEST(Fences, StarCutsFromAllOthers) {
  const Fused f = fused(chain(), {{"b", "*"}});
  EXPECT_EQ(groupsOf(f), 3u);
  EXPECT_EQ(reasonOf(f, "a", "b"), Reason::UserFence);
  EXPECT_EQ(reasonOf(f, "b", "c"), Reason::UserFence);
}

TEST(Fences, ForceJoinsWhatCostKeepsApartAndAllBetween) {
  const Graph g = productAndSoftmax();
  ASSERT_GT(groupsOf(fused(g, {})), 1u);
  EXPECT_EQ(groupsOf(fused(g, {}, {{"product", "shifted"}})), 1u);
}

TEST(Fences, WrongNamesAndContradictionsAreErrors) {
  const Graph g = chain();
  EXPECT_EQ(errorOf(g, {{"a", "zzz"}}, {}),
            "cut: 'zzz' found, expected the name of a node that is there after the passes");
  EXPECT_EQ(errorOf(g, {}, {{"a", "*"}}), "fuse: '*' found, expected the name of a node");
  EXPECT_EQ(errorOf(g, {{"a", "c"}}, {{"a", "c"}}),
            "fuse: a and c can't be one kernel: a cut lies between them");
}

}  // namespace
}  // namespace tektite
