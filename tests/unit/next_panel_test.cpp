#include "lower/next_panel.h"

#include <gtest/gtest.h>

#include <map>

#include "plan_buffer.h"

namespace tektite {
namespace {

constexpr int64_t kLine = 16;  // floats

int64_t valueOf(const Expr& e, const std::unordered_map<std::string, Expr>& at) {
  const auto value = asInteger(simplify(substitute(e, at), {}));
  EXPECT_TRUE(value) << toText(e);
  return value.value_or(-1);
}

struct Loops {
  int64_t rows, blocks, outer, depth;  ///< two around the blocks of rows, two along the reduction
};

/// Lines of which panel are fetched how often while panel `now` of three is used.
std::map<int64_t, std::map<int64_t, int>> fetchedWhile(int64_t now, const Loops& n, int64_t k,
                                                       int64_t width) {
  const PlanBuffer b = planBuffer(PlanBuffer::Constant, "w", {3, k, width});
  const std::vector<OpenLoop> blocks = {{"y", n.rows}, {"x", n.blocks}},
                              steps = {{"c", n.outer}, {"d", n.depth}};
  const auto fetch = nextPanel(b, {var("p"), 0, 0}, 0, blocks, steps);
  std::map<int64_t, std::map<int64_t, int>> out;
  if (!fetch) return out;
  const If* some = fetch->as<If>();
  const Copy& copy = *(some ? some->body[0] : *fetch).as<Copy>();
  EXPECT_FALSE(copy.to);
  for (int64_t y = 0; y < n.rows; y++)
    for (int64_t x = 0; x < n.blocks; x++)
      for (int64_t c = 0; c < n.outer; c++)
        for (int64_t d = 0; d < n.depth; d++) {
          std::unordered_map<std::string, Expr> at = {
              {"y", y}, {"x", x}, {"c", c}, {"d", d}, {"p", now}};
          if (some && !valueOf(some->condition, at)) continue;
          for (int64_t next = 0; next < *asInteger(copy.axes[0].extent); next += kLine) {
            at["next"] = next;
            const auto i = [&](size_t dim) { return valueOf(copy.from.index[dim], at); };
            out[i(0)][(i(1) * width + i(2)) / kLine]++;
          }
        }
  return out;
}

/// All lines of the next panel have come when it's its turn, and of others at most what rounding brings.
TEST(NextPanel, ComesWhileThisOneIsUsed) {
  const std::tuple<Loops, int64_t, int64_t> cases[] = {
      {{1, 8, 1, 64}, 128, 48},   // a line or two a step
      {{1, 2, 1, 50}, 100, 64},   // several a step
      {{1, 43, 1, 64}, 128, 64},  // one in some steps
      {{7, 9, 3, 8}, 27, 32},     // loops around loops
      {{50, 40, 1, 3}, 12, 16},   // one in some blocks
  };
  for (const auto& [n, k, width] : cases) {
    const int64_t lines = k * width / kLine, runs = n.rows * n.blocks * n.outer * n.depth;
    EXPECT_TRUE(fetchedWhile(2, n, k, width).empty());  // the last
    for (const int64_t now : {0, 1}) {
      SCOPED_TRACE(fmt::format("{} lines in {} steps, panel {}", lines, runs, now));
      const auto fetched = fetchedWhile(now, n, k, width);
      ASSERT_EQ(fetched.size(), 1u);
      EXPECT_EQ(fetched.begin()->first, now + 1);
      const auto& lineCounts = fetched.begin()->second;
      int64_t all = 0, beyond = 0;
      for (int64_t i = 0; i < lines; i++) EXPECT_TRUE(lineCounts.count(i)) << i;
      for (const auto& [line, times] : lineCounts) all += times, beyond += line >= lines;
      EXPECT_LE(beyond, lines / 2);
      EXPECT_LE(all, 2 * lines);
    }
  }
}

TEST(NextPanel, OneBlockFetchesNothing) {
  EXPECT_TRUE(fetchedWhile(0, {1, 1, 1, 64}, 128, 48).empty());
}

}  // namespace
}  // namespace tektite
