// Which nodes share a kernel, and who reads whom.
#include "fusion/clusters.h"

#include <gtest/gtest.h>

#include "ir/graph.h"

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

}  // namespace
}  // namespace tektite
