#include "ir/facts.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/expr_text.h"

namespace tektite {
namespace {

using Point = std::map<std::string, int64_t>;

int64_t floorDivision(int64_t a, int64_t b) { return b == 0 ? 0 : (a - ((a % b) + b) % b) / b; }

/// Plain evaluation, written apart from the compiler's.
int64_t eval(const Expr& e, const Point& at) {
  if (const Imm* i = e.as<Imm>()) return i->integer;
  if (const Var* v = e.as<Var>()) return at.at(v->name);
  const Apply& a = *e.as<Apply>();
  std::vector<int64_t> x;
  for (const Expr& arg : a.args) x.push_back(eval(arg, at));
  switch (a.op) {
    case Op::Add: return x[0] + x[1];
    case Op::Sub: return x[0] - x[1];
    case Op::Mul: return x[0] * x[1];
    case Op::Neg: return -x[0];
    case Op::FloorDiv: return floorDivision(x[0], x[1]);
    case Op::Mod: return x[1] == 0 ? x[0] : x[0] - floorDivision(x[0], x[1]) * x[1];
    case Op::Max: return std::max(x[0], x[1]);
    case Op::Min: return std::min(x[0], x[1]);
    case Op::Select: return x[0] ? x[1] : x[2];
    case Op::Lt: return x[0] < x[1];
    case Op::Le: return x[0] <= x[1];
    case Op::Eq: return x[0] == x[1];
    case Op::And: return x[0] & x[1];
    case Op::Or: return x[0] | x[1];
    case Op::Not: return !x[0];
    default: ADD_FAILURE() << "no meaning for " << info(a.op).name; return 0;
  }
}

struct RandomExpr {
  std::mt19937 random;
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  Expr constant() {
    const int64_t values[] = {1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16, 0, -1, -2, -3, 7};
    return Expr(values[below(std::size(values))]);
  }
  Expr index(int depth) {
    if (depth == 0 || below(6) == 0)
      return below(4) ? var(std::string(1, "ijkn"[below(4)])) : constant();
    const auto arg = [&] { return index(depth - 1); };
    switch (below(12)) {
      case 0:
      case 1: return arg() + arg();
      case 2: return arg() - arg();
      case 3:
      case 4: return arg() * constant();
      case 5: return below(3) ? arg() + constant() : var("i") * var("n");
      case 6:
      case 7: return floorDiv(arg(), below(8) ? constant() : var("n"));
      case 8:
      case 9: return floorMod(arg(), below(8) ? constant() : var("n"));
      case 10: return below(2) ? min(arg(), arg()) : max(arg(), arg());
      default: return select(condition(depth - 1), arg(), arg());
    }
  }
  Expr condition(int depth) {
    const auto arg = [&] { return index(std::max(depth - 1, 0)); };
    switch (depth == 0 ? below(3) : below(6)) {
      case 0: return lt(arg(), arg());
      case 1: return le(arg(), arg());
      case 2: return eq(arg(), arg());
      case 3:
      case 4: return logicalAnd(condition(depth - 1), condition(depth - 1));
      default:
        return below(2) ? logicalNot(condition(depth - 1))
                        : apply(Op::Or, {condition(depth - 1), condition(depth - 1)});
    }
  }
};

const Ranges small{{"i", {0, 5}}, {"j", {-3, 4}}, {"k", {0, 7}}, {"n", {0, 3}}};

template <class F>
void forEachPoint(const Ranges& r, F&& f) {
  Point p;
  for (p["i"] = r.at("i").low; p["i"] <= r.at("i").high; ++p["i"])
    for (p["j"] = r.at("j").low; p["j"] <= r.at("j").high; ++p["j"])
      for (p["k"] = r.at("k").low; p["k"] <= r.at("k").high; ++p["k"])
        for (p["n"] = r.at("n").low; p["n"] <= r.at("n").high; ++p["n"]) f(p);
}

TEST(Facts, SimplifiedExpressionsHaveTheSameValuesWithinTheirBounds) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    RandomExpr r{std::mt19937(seed)};
    const Expr e = seed % 3 ? r.index(4) : r.condition(4);
    const Expr s = simplify(e, small);
    const Interval in = boundsOf(e, small), tight = boundsOf(s, small);
    bool same = true;
    forEachPoint(small, [&](const Point& p) {
      const int64_t v = eval(e, p);
      same &= v == eval(s, p) && in.low <= v && v <= in.high && tight.low <= v && v <= tight.high;
    });
    ASSERT_TRUE(same) << "seed " << seed << ": " << toText(e) << "  ->  " << toText(s) << "  in "
                      << in.low << ".." << in.high;
    ASSERT_EQ(toText(simplify(s, small)), toText(s)) << "seed " << seed << ": " << toText(e);
  }
}

TEST(Facts, WhatIsProvenUnderAssumptionsHolds) {
  int proven = 0;
  for (unsigned seed = 0; seed < 600; ++seed) {
    RandomExpr r{std::mt19937(seed + 77777)};
    const std::vector<Expr> facts = {r.condition(1), r.condition(2)};
    const Expr e = r.condition(2), x = r.index(3);
    const bool always = proves(e, small, facts);
    const Expr s = simplify(x, small, facts);
    proven += always;
    bool right = true;
    forEachPoint(small, [&](const Point& p) {
      if (!eval(facts[0], p) || !eval(facts[1], p)) return;
      right &= (!always || eval(e, p)) && eval(x, p) == eval(s, p);
    });
    ASSERT_TRUE(right) << "seed " << seed << ": " << toText(facts[0]) << " and " << toText(facts[1])
                       << " give " << toText(e) << "; " << toText(x) << " -> " << toText(s);
  }
  EXPECT_GT(proven, 50);
}

Expr parse(std::string_view text, DType type = DType::I64) {
  std::vector<std::pair<std::string, DType>> names;
  for (const char* v : {"i", "j", "k", "x", "y", "n", "m", "d0", "d1", "d2", "d10"})
    names.emplace_back(v, DType::I64);
  return parseScalar(text, names, type);
}

TEST(Facts, NormalForms) {
  const Ranges ranges{{"i", {0, 9}},       {"j", {0, 63}},     {"k", {0, 7}},
                      {"x", {0, 4095}},    {"y", {-100, 100}}, {"n", {1, 1 << 20}},
                      {"m", {1, 1 << 20}}, {"d0", {0, 99}},    {"d1", {0, 7}},
                      {"d2", {0, 7}},      {"d10", {0, 7}}};
  const std::pair<const char*, const char*> indices[] = {
      {"j + i * 2 - j + 3 + i", "i * 3 + 3"},
      {"d10 + d2 * 4 - 1", "d2 * 4 + d10 - 1"},
      {"5 - i", "5 - i"},
      {"(i * 64 + j) // 64", "i"},
      {"(i * 64 + j) % 64", "j"},
      {"(i * 128 + j * 2 + 1) // 64", "i * 2 + j // 32"},
      {"(y * 12 + 30) // 6", "y * 2 + 5"},
      {"(y * 12 + 30) % 6", "0"},
      {"x // 4 // 8", "x // 32"},
      {"(x // 4 + 3) // 8", "(x + 12) // 32"},
      {"x % 64 // 8", "x // 8 % 8"},
      {"x % 64 % 8", "x % 8"},
      {"(x % 64 + 8) % 16", "(x + 8) % 16"},
      {"x // 8 * 8 + x % 8", "x"},
      {"x - x // 8 * 8", "x % 8"},
      {"x // 64 * 64 + x // 8 % 8 * 8 + x % 8", "x"},
      {"x // 8 % 8 * 8 + x % 8", "x % 64"},
      {"(i * 64 + j) // 8 * 8 + (i * 64 + j) % 8", "i * 64 + j"},
      {"(i * 64 + j) // 8 % 8", "j // 8"},
      {"(i * 8 + k) % 64", "i % 8 * 8 + k"},
      {"max(i, y * 0 - 4)", "i"},
      {"min(i + 1, i + 3)", "i + 1"},
      {"select(i < 10, i, j)", "i"},
      {"(d0 * n + 0) // n", "d0"},
      {"(d0 * n * m + d1 * m) // m", "d0 * n + d1"},
      {"truncdiv(x, 8)", "x // 8"},
  };
  const std::pair<const char*, const char*> conditions[] = {
      {"i - 2 < 3", "i < 5"},
      {"i * 2 + 1 < 8", "i < 4"},
      {"i < 7 & i < 5 & i < 6", "i < 5"},
      {"i < 3 & 5 < i", "bool(0)"},
      {"not(i < 3)", "3 <= i"},
      {"x // 4 < 10", "x < 40"},
      {"i * 64 + j < 320", "i < 5"},
      {"2 * i == 2 * k + 4", "i == k + 2"},
      {"2 * i == 2 * k + 3", "bool(0)"},
      {"0 <= i & i < 10 & j - k < y", "j < k + y"},
  };
  for (const auto& [from, to] : indices)
    EXPECT_EQ(toText(simplify(parse(from), ranges)), toText(parse(to))) << from;
  for (const auto& [from, to] : conditions)
    EXPECT_EQ(toText(simplify(parse(from, DType::Bool), ranges)), toText(parse(to, DType::Bool)))
        << from;
}

TEST(Facts, DataMayWrap) {
  const Ranges none;
  const Expr a = load("x", DType::I64, {}), b = load("y", DType::I32, {});
  EXPECT_EQ(toText(simplify(floorDiv(a * 4, 4), none)), "x * 4 // 4");
  EXPECT_EQ(toText(simplify(lt(a, a + 1), none)), "x < x + 1");
  EXPECT_EQ(toText(simplify(floorDiv(cast(DType::I64, b) * 4, 4), none)), "i64(y)");
  EXPECT_EQ(toText(simplify(le(a, Expr(INT64_MAX)), none)), toText(le(a, Expr(INT64_MAX))));
}

TEST(Facts, IndicesWithoutARangeDoNotWrap) {
  EXPECT_EQ(toText(simplify(parse("(i * 16 + 32) // 16"), {})), "i + 2");
  EXPECT_EQ(toText(simplify(parse("(i * 16 + 33) % 16"), {})), "1");
}

TEST(Facts, Proofs) {
  const Ranges ranges{{"i", {0, 9}},    {"j", {0, 63}},      {"k", {0, 7}},
                      {"x", {0, 4095}}, {"n", {1, 1 << 20}}, {"m", {0, 1 << 20}}};
  for (const char* yes : {"x // 8 * 8 <= x", "x <= x // 8 * 8 + 7", "x - x // 8 * 8 < 8",
                          "min(8, x - i) <= 8", "i + min(4, x - i) <= x", "max(i, k) <= i + k",
                          "x % 16 <= x", "(x + 7) // 8 * 8 < x + 8", "n * i <= n * 9 | i < 10"})
    EXPECT_TRUE(proves(parse(yes, DType::Bool), ranges)) << yes;
  for (const char* no : {"x // 8 * 8 < x", "i < k", "x % 16 < x"})
    EXPECT_FALSE(proves(parse(no, DType::Bool), ranges)) << no;
  const std::vector<Expr> facts = {parse("i * 8 + k < m", DType::Bool), parse("j < n", DType::Bool),
                                   parse("i < k", DType::Bool)};
  for (const char* yes : {"i * 8 + k <= m - 1", "i * 8 < m", "0 < m", "j + 1 <= n", "i < 7",
                          "0 < k", "i * 8 + i + 1 < m"})
    EXPECT_TRUE(proves(parse(yes, DType::Bool), ranges, facts)) << yes;
  EXPECT_FALSE(proves(parse("j < m", DType::Bool), ranges, facts));
  EXPECT_EQ(toText(simplify(parse("(i * n + j) // n * n + (i * n + j) % n"), ranges, facts)),
            "i * n + j");
}

TEST(Facts, SharedSubexpressionsCostOnce) {
  Expr e = var("i");
  for (int n = 0; n < 60; ++n) e = floorMod(e * 3 + e + var("j"), Expr(1009));
  Expr s = max(var("i"), var("j"));
  for (int n = 0; n < 60; ++n) s = select(lt(s, Expr(5)), max(s, var("j")), s + s);
  const Ranges ranges{{"i", {0, 9}}, {"j", {0, 63}}};
  EXPECT_TRUE(simplify(e, ranges));
  EXPECT_TRUE(simplify(s, ranges));
}

}  // namespace
}  // namespace tektite
