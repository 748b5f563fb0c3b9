// The search for tiles where memories are explicit (fusion/explicit.h).
#include "fusion/explicit.h"

#include <random>

#include "../evaluators.h"
#include "fusion/fuse.h"
#include "ir/builder.h"

namespace tektite {
namespace {

/// As the header says, pair by pair, until nothing changes.
std::vector<Life> nestedByDefinition(std::vector<Life> list) {
  for (bool again = true; again;) {
    again = false;
    for (Life& a : list)
      for (const Life& b : list)
        if (a.first < b.first && b.first <= a.last && a.last < b.last)
          a.last = b.last, again = true;
  }
  return list;
}

TEST(Explicit, LivesBecomeNoLongerThanNesting) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 2000; trial++) {
    std::vector<Life> list;
    const int places = 1 + below(30);
    for (int i = below(20); i >= 0; i--) {
      const int first = below(places);
      list.push_back({first, first + below(places - first)});
    }
    const std::vector<Life> want = nestedByDefinition(list);
    nestLives(list);
    for (size_t i = 0; i < list.size(); i++) {
      EXPECT_EQ(list[i].first, want[i].first);
      ASSERT_EQ(list[i].last, want[i].last) << "trial " << trial << ", life " << i;
    }
  }
}

/// Descents from several tiles, along several axes, meet: a tiling is costed once.
TEST(Explicit, TilingsThatDescentsShareAreCostedOnce) {
  Builder b;
  Value x = b.input("x", {DType::F32, {64, 256, 256}});
  for (int i = 0; i < 3; i++) x = b.map("a * 1.5 + 1", {x});
  b.graph.outputs = {x};
  const Fused f = fuse(b.graph, findTarget("npu:ethos-u65-512"), {});
  EXPECT_LE(f.steps, 800);  // 1226, were each descent by itself
}

}  // namespace
}  // namespace tektite
