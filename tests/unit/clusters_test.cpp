// Which nodes share a kernel, and who reads whom: a DAG, also while they become one.
#include "fusion/clusters.h"

#include <gtest/gtest.h>

#include <random>

#include "fusion/fuse.h"
#include "fusion/peak.h"
#include "ir/builder.h"

namespace tektite {
namespace {

/// What is computed by each reader again belongs to no cluster: nobody's neighbour, also where the cluster that had it is taken apart.
TEST(Clusters, WhatReadersRepeatIsNobodysNeighbour) {
  const Graph g = parseGraph(
      "graph (x: f32[8x8], y: f32[8x8]) {\n"
      "  %2 = map (x) { f16(exp($0)) } : f16[8x8]\n"
      "  %3 = map (%2) { f32($0) } : f32[8x8]\n"
      "  %4 = contract %3, y ik,kj->ij : f32[8x8]\n"
      "  return %4\n}\n",
      "g");
  Clusters clusters(g, {});
  const int first = clusters.of[2], reader = clusters.of[4];
  clusters.merge(first, clusters.of[3]);
  ASSERT_TRUE(clusters.mayRepeat(3));
  const Clusters::Repetition repetition = clusters.repeat(3);
  EXPECT_EQ(clusters.of[3], -1);
  EXPECT_EQ(clusters.readersOf(2), std::set<int>{reader});
  const int apart = clusters.takeOut(first, {2});
  EXPECT_EQ(clusters.list[apart].after, std::set<int>{reader});
  EXPECT_EQ(clusters.list[reader].before, std::set<int>{apart});

  Clusters again(g, {});
  again.merge(first, again.of[3]);
  again.undo(again.repeat(3));
  EXPECT_EQ(again.readersOf(3), std::set<int>{reader});
  EXPECT_TRUE(again.readersOf(2).empty());
}

/// What it is computed from may come from several: its readers then stand behind all of them.
TEST(Clusters, WhatReadersRepeatMayBeOfSeveral) {
  const Graph g = parseGraph(
      "graph (x: f32[8x8]) {\n"
      "  %1 = reduce sum x axes=[1] : f32[8x1]\n"
      "  %2 = map (x, %1) { $0 - $1 } : f32[8x8]\n"
      "  %3 = reduce max %2 axes=[0] : f32[1x8]\n"
      "  %4 = map (%2, %3) { $0 / $1 } : f32[8x8]\n"
      "  %5 = map (%4) { exp($0) } : f32[8x8]\n"
      "  return %5, %4\n}\n",
      "g");
  Clusters clusters(g, {});
  const int sum = clusters.of[1], most = clusters.of[3], quotient = clusters.of[4];
  EXPECT_FALSE(clusters.mayRepeat(2));  // nothing would be left of its cluster
  clusters.merge(most, clusters.of[2]);
  ASSERT_TRUE(clusters.mayRepeat(2));
  const std::vector<int> order = clusters.order();
  const Clusters::Repetition repetition = clusters.repeat(2);
  EXPECT_EQ(clusters.list[quotient].before, (std::set<int>{sum, most}));
  EXPECT_EQ(clusters.list[sum].after, (std::set<int>{most, quotient}));
  clusters.order();  // throws where they are in a cycle
  clusters.undo(repetition);
  EXPECT_EQ(clusters.list[quotient].before, std::set<int>{most});
  EXPECT_EQ(clusters.list[sum].after, std::set<int>{most});
  EXPECT_EQ(clusters.order(), order);
  EXPECT_FALSE(clusters.mayRepeat(4));  // a result
}

/// Kernels that were tried beside each other, of which one is named after a map that its readers repeat since.
TEST(Clusters, PairsAreOfKernelsThatAreThere) {
  const Graph g = parseGraph(
      "graph (x0: f32[12x1x12], x1: f32[12x12]) {\n"
      "  %2 = map (x0) { $0 * 0.5 + 0.25 } : f32[12x1x12]\n"
      "  %3 = view x1 (d0, d1, d2) -> (d1, d2) : f32[1x12x12]\n"
      "  %4 = map (x0, %3) { $0 * $1 - 0.5 } : f32[12x12x12]\n"
      "  %5 = view %4 (d0, d1, d2, d3) -> (d0 * 6 + d1 * 2 + d2, d3 // 12, d3 % 12) "
      ": f32[2x3x2x144]\n"
      "  %6 = map (%4) { max($0, 0.1) } : f32[12x12x12]\n"
      "  %7 = view %6 (d0, d1, d2) -> (d0 - 1, d1 - 1, d2) fill=0.5 : f32[13x13x12]\n"
      "  %8 = view x1 (d0, d1, d2) -> (d0 * 3 + d1 // 6, d1 % 6 * 2 + d2) : f32[4x18x2]\n"
      "  %9 = view %6 (d0, d1, d2, d3, d4) -> (d0 * 6 + d1 * 3 + d2, d3 // 3, d3 % 3 * 4 + d4) "
      ": f32[2x2x3x36x4]\n"
      "  %10 = view %7 (d0, d1, d2) -> (d0, d2, d1) : f32[13x12x13]\n"
      "  %11 = map (%6) { $0 * 0.5 + 0.25 } : f32[12x12x12]\n"
      "  %12 = map (%10, %10) { $0 + $1 } : f32[13x12x13]\n"
      "  return %12, %12, %9\n}\n",
      "g");
  const Fused fused = fuse(g, findTarget("cpu:avx2"), {});
  for (const Edge& e : fused.ledger.pairs)
    EXPECT_EQ(e.verdict == Verdict::Unfused, e.refusal.reason != Reason::None) << e.fromName;
}

Graph randomDag(int nodes, std::mt19937& random) {
  Builder b;
  std::vector<Value> all = {b.input("x", {DType::F32, {8}})};
  for (int n = 0; n < nodes; n++)
    all.push_back(
        b.map("exp(a) * tanh(b)", {all[random() % all.size()], all[random() % all.size()]}));
  b.graph.outputs = all;
  return b.graph;
}

/// Does a way of at least `steps` edges lead from one to the other?
bool leads(const Clusters& clusters, int from, int to, int steps) {
  for (const int c : clusters.list[from].after)
    if ((steps <= 1 && c == to) || (c != to && leads(clusters, c, to, steps - 1))) return true;
  return false;
}

TEST(Clusters, AnyThatNoWayLeadsAroundBecomeOne) {
  std::mt19937 random(5);
  int joined = 0, refused = 0;
  for (int round = 0; round < 60; round++) {
    const Graph g = randomDag(14, random);
    Clusters clusters(g, {});
    for (int tries = 0; tries < 60; tries++) {
      const int a = static_cast<int>(random() % clusters.list.size()),
                b = static_cast<int>(random() % clusters.list.size());
      if (a == b || !clusters.list[a].alive || !clusters.list[b].alive) continue;
      const bool round = leads(clusters, a, b, 2) || leads(clusters, b, a, 2);
      ASSERT_EQ(clusters.wayRound(a, b) >= 0, round);
      (round ? refused : joined)++;
      if (!round) clusters.merge(a, b);
      clusters.order();  // throws where they are in a cycle
      if (tries % 20 == 19 && clusters.list[a].alive && clusters.list[a].nodes.size() > 1) {
        const std::vector<int> nodes = clusters.list[a].nodes;
        clusters.split(a, nodes.size() / 2);
      }
    }
  }
  EXPECT_GT(joined, 300);
  EXPECT_GT(refused, 300);
}

/// What a kernel reads and makes is alive while it runs: never more than the peak, and where the kernel is all there is, that. What was asked of
/// clusters before they became one changes nothing.
TEST(Clusters, LeastAliveBoundsThePeak) {
  std::mt19937 random(7);
  int met = 0;
  for (int round = 0; round < 40; round++) {
    Builder b;
    std::vector<Value> all = {b.input("x", {DType::F32, {8, 8}})};
    for (int n = 0; n < 12; n++) {
      const Value v = all[random() % all.size()], w = all[random() % all.size()];
      all.push_back(random() % 3 ? b.map("exp(a) * tanh(b)", {v, w})
                                 : b.map("exp(a - b)", {v, b.reduce("max", v, {1})}));
    }
    b.graph.outputs = {all.back()};
    Clusters clusters(b.graph, {}), unasked(b.graph, {});
    const auto peak = [&](const Clusters& of, bool exact) {
      return PeakMemory(b.graph, of, exact, [](int) { return 0; }).bytes();
    };
    for (int tries = 0; tries < 30; tries++) {
      const int first = static_cast<int>(random() % clusters.list.size()),
                second = static_cast<int>(random() % clusters.list.size());
      if (first == second || !clusters.list[first].alive || !clusters.list[second].alive ||
          clusters.wayRound(first, second) >= 0)
        continue;
      const std::vector<int> nodes = clusters.together(first, second);
      const int64_t kept = clusters.leastAlive(nodes, false),
                    exact = clusters.leastAlive(nodes, true);
      clusters.merge(first, second);
      unasked.merge(first, second);
      EXPECT_LE(kept, peak(clusters, false));
      EXPECT_LE(exact, peak(clusters, true));
      met += exact > 0 && exact == peak(clusters, true);
    }
    EXPECT_EQ(peak(clusters, true), peak(unasked, true));
    EXPECT_EQ(peak(clusters, false), peak(unasked, false));
  }
  EXPECT_GT(met, 20);
}

}  // namespace
}  // namespace tektite
