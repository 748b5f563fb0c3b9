#include "ir/assumptions.h"

#include <gtest/gtest.h>

#include "ir/expr_text.h"

namespace tektite {
namespace {

Expr condition(std::string_view text) {
  std::vector<std::pair<std::string, DType>> names;
  for (const char* n : {"M", "N", "i", "j", "k", "l", "t", "e"}) names.emplace_back(n, DType::I64);
  return parseScalar(text, names, DType::Bool);
}
Expr index(std::string_view text) {
  return condition(std::string(text) + " == 0").as<Apply>()->args[0];
}

TEST(Assumptions, ProveWhatFollows) {
  Assumptions a;
  a.range("N", 1, 65536);
  a.range("M", 0, 1000);
  a.loop("i", index("(N + 7) // 8 + M * 0"));
  a.loop("l", Expr(8));
  a.loop("t", Expr(128));
  a.loop("e", Expr(8));
  a.loop("j", index("min(32, N - i * 8)"));
  for (const char* text : {"i * 8 < N", "0 <= i * 8 + l", "i * 8 + l < N + 7", "t % 4 * 8 + e < 32",
                           "(i * 8 + l) // 8 == i", "(i * 8 + l) % 8 == l", "i * 8 + j < N",
                           "t // 4 < 32", "max(i, 3) <= 8192", "0 <= select(i < 3, i, 3)",
                           "select(i < 3, i, 3) < 4", "min(M, 5) <= 5", "not(i * 8 == N)",
                           "i < 4 | 4 <= i", "0 <= min(max(k, 0), M)", "min(max(k, 0), M) <= M"})
    EXPECT_TRUE(a.proves(condition(text))) << text;
  for (const char* text : {"i * 8 + l < N", "0 < M", "i < 100", "k < N", "0 <= min(k, M)"})
    EXPECT_FALSE(a.proves(condition(text))) << text;
}

TEST(Assumptions,
     CasesOfAMinimumReachTheFacts) {  // the last block of a tail is there only where it isn't whole
  Assumptions a;
  a.range("t", 0, 2);
  a.loop("i", index("min(min(t * 4 + 4, 10) % 4, 1)"));
  EXPECT_TRUE(a.proves(condition("min(t * 4 + 4, 10) // 4 - t + 1 <= 1")));
}

TEST(Assumptions,
     ALoopThatRunsSaysWhatItCounts) {  // also where the goal doesn't speak of its variable
  Assumptions a;
  a.range("t", 0, 3);
  a.loop("l", Expr(4));
  const size_t before = a.mark();
  a.loop("i", index("min(t * 10 - 10, 5) // 4"));
  EXPECT_TRUE(a.proves(condition("l < t * 10")));
  EXPECT_TRUE(a.proves(condition("2 <= t")));
  a.rewind(before);
  EXPECT_FALSE(a.proves(condition("l < t * 10")));
  a.loop(
      "j",
      index(
          "min(t * 12 + 12, 45) - t * 12"));  // a variable of a loop has a range, for what isn't linear
  EXPECT_TRUE(
      a.proves(condition("0 <= (j * 11 + t * 132) // 45 * 3 + (j * 11 + t * 132) % 5 // 15")));
}

TEST(Assumptions, GuardsHoldUntilRewound) {
  Assumptions a;
  a.range("N", 1, 100);
  const size_t before = a.mark();
  a.assume(condition("i < N & not(i < 2)"));
  EXPECT_TRUE(a.proves(condition("2 <= i & i <= 99")));
  EXPECT_FALSE(a.contradictory());
  a.assume(condition("i == 1"));
  EXPECT_TRUE(a.contradictory());
  a.rewind(before);
  EXPECT_FALSE(a.proves(condition("i < N")));
}

}  // namespace
}  // namespace tektite
