#include "passes/rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "ir/expr_text.h"
#include "ir/scalar_eval.h"

namespace tektite {
namespace {

struct Scalar {
  double real = 0;
  int64_t integer = 0;
};
using Env = std::map<std::string, Scalar>;

/// One op at a time, each result rounded to its type: what an unfused kernel would do.
Scalar eval(const Expr& e, const Env& env) {
  if (const Imm* i = e.as<Imm>()) return {i->real, i->integer};
  if (const Var* v = e.as<Var>()) return env.at(v->name);
  const Apply& a = *e.as<Apply>();
  std::vector<double> reals;
  std::vector<int64_t> integers;
  bool floats = false;
  for (const Expr& x : a.args) {
    const Scalar s = eval(x, env);
    reals.push_back(isFloat(x.type()) ? s.real : static_cast<double>(s.integer));
    integers.push_back(s.integer);
    floats |= isFloat(x.type());
  }
  if (a.op == Op::Select) return eval(a.args[integers[0] ? 1 : 2], env);
  if (!floats) return {0, evalInteger(a.op, a.args[0].type(), integers)};
  const double value = evalFloat(a.op, reals);
  return isFloat(e.type()) ? Scalar{roundTo(e.type(), value), 0} : Scalar{0, value != 0};
}

std::vector<Scalar> samples(DType t, std::mt19937& random) {
  std::vector<Scalar> out;
  if (t == DType::Bool) return {{0, 0}, {0, 1}};
  if (isFloat(t)) {
    const double inf = std::numeric_limits<double>::infinity();
    for (double v : {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -3.0, inf, -inf, std::nan(""), 1e38, -1e38,
                     1e-44, 1e300, 65504.0, 6e-8, 1e-300})
      out.push_back({roundTo(t, v), 0});
    std::uniform_real_distribution<double> exponent(-6, 6), plain(-10, 10);
    for (int i = 0; i < 12; ++i)
      out.push_back({roundTo(t, plain(random) * (i % 2 ? 1 : std::exp2(exponent(random) * 3))), 0});
    return out;
  }
  for (int64_t v :
       {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{2}, int64_t{7}, INT64_MIN, INT64_MAX})
    out.push_back({0, wrapTo(t, v)});
  const int n = bits(t);
  for (int64_t v : {int64_t{1} << (n - 1), static_cast<int64_t>((uint64_t{1} << (n - 1)) - 1)})
    out.push_back({0, wrapTo(t, v)});
  for (int i = 0; i < 6; ++i)
    out.push_back({0, wrapTo(t, static_cast<int64_t>(random() * uint64_t{0x9e3779b9}))});
  return out;
}

bool sameBits(DType t, const Scalar& a, const Scalar& b) {
  if (!isFloat(t)) return a.integer == b.integer;
  if (std::isnan(a.real) || std::isnan(b.real)) return std::isnan(a.real) && std::isnan(b.real);
  return a.real == b.real && std::signbit(a.real) == std::signbit(b.real);
}
bool close(DType t, const Scalar& a, const Scalar& b, double ulps) {
  if (sameBits(t, a, b)) return true;
  const double unit = t == DType::F64   ? 0x1p-52
                      : t == DType::F32 ? 0x1p-23
                      : t == DType::F16 ? 0x1p-10
                                        : 0x1p-7;
  const double least = t == DType::F64 ? 0x1p-1022 : t == DType::F16 ? 0x1p-14 : 0x1p-126;
  return std::isfinite(a.real) &&
         std::fabs(a.real - b.real) <= ulps * unit * std::max(std::fabs(a.real), least);
}

/// Calls `check` with values for all variables: all combinations of samples, thinned out evenly where they are many.
template <class F>
void forEachAssignment(const TypedRule& r, F&& check) {
  std::mt19937 random(7);
  std::vector<std::pair<std::string, std::vector<Scalar>>> axes;
  visit(r.pattern, [&](const Expr& e) {
    if (const Var* v = e.as<Var>()) axes.emplace_back(v->name, samples(e.type(), random));
  });
  size_t total = 1;
  for (const auto& [name, list] : axes) total *= list.size();
  const size_t step = total > 40000 ? total / 40000 | 1 : 1;
  for (size_t at = 0; at < total; at += step) {
    Env env;
    size_t rest = at;
    for (const auto& [name, list] : axes) env[name] = list[rest % list.size()], rest /= list.size();
    check(env);
  }
}

std::string show(DType t, const Env& env) {
  std::string out(name(t));
  for (const auto& [n, s] : env)
    out += fmt::format(
        " {}={}", n, isFloat(t) && n != "p" && n != "q" ? s.real : static_cast<double>(s.integer));
  return out;
}

/// Fast rules say nothing about the edges of the range: only moderate positive operands are held against them.
bool moderate(DType t, const Env& env) {
  if (t == DType::F16 || t == DType::BF16) return false;
  for (const auto& [n, s] : env)
    if (!(s.real >= 0.01 && s.real <= 64)) return false;
  return true;
}

TEST(Rules, HoldOnRandomAndSpecialValues) {
  std::map<std::string_view, int> tried;
  for (int i = 0; i <= static_cast<int>(DType::F64); ++i) {
    const DType t = static_cast<DType>(i);
    for (const TypedRule& r : typedRules(t)) {
      const Strength s = r.rule->strength;
      if (isFloat(t) ? s == Strength::Integer : s > Strength::Integer) continue;
      int wrong = 0;
      forEachAssignment(r, [&](const Env& env) {
        if (r.rule->when && !r.rule->when(env.at("c").real)) return;
        if (s == Strength::Fast && !moderate(t, env)) return;
        const Scalar a = eval(r.pattern, env), b = eval(r.replacement, env);
        const DType result = r.pattern.type();
        const bool holds = s == Strength::Fast      ? close(result, a, b, 64)
                           : s == Strength::Ordered ? close(result, a, b, 4)
                                                    : sameBits(result, a, b);
        if (!holds && wrong++ == 0)
          ADD_FAILURE() << r.rule->name << ": " << show(t, env) << ": " << a.real << " "
                        << a.integer << " became " << b.real << " " << b.integer;
        ++tried[r.rule->name];
      });
    }
  }
  for (const Rule& r : allRules())
    EXPECT_GT(tried[r.name], 1) << r.name << " was tried on no values";
}

Expr parse(std::string_view text, DType t = DType::F32) {
  return parseScalar(
      text, {{"x", t}, {"y", t}, {"i", DType::I32}, {"h", DType::F16}, {"p", DType::Bool}}, t);
}
std::string after(std::string_view text, Numerics mode = Numerics::Ordered, DType t = DType::F32) {
  return toText(applyRules(parse(text, t), mode));
}

TEST(Rules, Apply) {
  EXPECT_EQ(after("max(max(x, 0), 0) * 1"), "max(x, 0)");
  EXPECT_EQ(after("x + 0"), "x + 0");
  EXPECT_EQ(after("x / 4 + neg(y)"), "x * 0.25 - y");
  EXPECT_EQ(after("x / 3"), "x / 3");
  EXPECT_EQ(after("x / 4", Numerics::Fast), "x * 0.25");
  EXPECT_EQ(after("pow(x, 3)"), "x * x * x");
  EXPECT_EQ(after("pow(x, 3)", Numerics::Strict), "pow(x, 3)");
  EXPECT_EQ(after("pow(1 * x, 2)", Numerics::Strict), "x * x");
  EXPECT_EQ(after("sqrt(2) * x", Numerics::Strict, DType::F64), "1.4142135623730951 * x");
  EXPECT_EQ(after("f32(f32(h))"), "f32(h)");
  EXPECT_EQ(toText(applyRules(cast(DType::F16, cast(DType::F32, var("h", DType::F16))),
                              Numerics::Strict)),
            "h");
  EXPECT_EQ(toText(applyRules(cast(DType::I32, cast(DType::F32, var("i", DType::I32))),
                              Numerics::Strict)),
            "i32(f32(i))");
  EXPECT_EQ(after("select(not(p), x, select(p, x, y))"), "x");
}

}  // namespace
}  // namespace tektite
