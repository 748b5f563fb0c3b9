// How neighbouring threads of a GPU's teams reach main memory, by the index maps of what was fused.
#include "schedule/coalescing.h"

#include <gtest/gtest.h>

#include "fusion/fuse.h"
#include "lower/lower.h"
#include "support/check.h"

namespace tektite {
namespace {

AccessCounts countsOf(const std::string& text) {
  const Target target = findTarget("cuda:sm_90");
  const Fused fused = fuse(parseGraph(text, "g"), target, {});
  AccessCounts all;
  for (const Node& n : fused.graph.nodes)
    if (const Group* g = n.as<Group>()) {
      const GroupPlan plan = prepare(*g->plan, target);
      all += countAccesses(plan, chooseTeam(plan, target));
    }
  return all;
}

TEST(Coalescing, AChainOfMapsIsWide) {
  const AccessCounts c = countsOf(
      "graph (x: f32[4096x1024], b: f32[1x1024], r: f32[4096x1024]) {\n"
      "  %1 = map (x, b) { $0 + $1 } : f32[4096x1024]\n"
      "  %2 = map (%1, r) { max($0, 0) + $1 } : f32[4096x1024]\n"
      "  return %2\n}\n");
  EXPECT_EQ(c.wide, 4);
  EXPECT_EQ(c.all(), 4);
}

TEST(Coalescing, RowsOfASoftmaxAreSideBySide) {
  const AccessCounts c = countsOf(
      "graph (x: f32[4096x1000]) {\n"
      "  %1 = reduce max x axes=[1] : f32[4096x1]\n"
      "  %2 = map (x, %1) { exp($0 - $1) } : f32[4096x1000]\n"
      "  %3 = reduce sum %2 axes=[1] : f32[4096x1]\n"
      "  %4 = map (%2, %3) { $0 / $1 } : f32[4096x1000]\n"
      "  return %4\n}\n");
  EXPECT_GE(c.wide + c.together, 2);
  EXPECT_EQ(c.apart, 0);
}

TEST(Coalescing, ATransposedReadIsApart) {
  const AccessCounts c = countsOf(
      "graph (x: f32[512x512]) {\n"
      "  %1 = view x (d0, d1) -> (d1, d0) : f32[512x512]\n"
      "  %2 = map (%1) { $0 * 2 } : f32[512x512]\n"
      "  return %2\n}\n");
  EXPECT_EQ(c.together, 1);
  EXPECT_EQ(c.apart, 1);
}

}  // namespace
}  // namespace tektite
