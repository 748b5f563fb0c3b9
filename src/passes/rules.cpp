#include "passes/rules.h"

#include <cmath>
#include <map>
#include <mutex>

#include "ir/expr_text.h"
#include "ir/scalar_eval.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr Strength exact = Strength::Exact, integer = Strength::Integer, floats = Strength::Float,
                   ordered = Strength::Ordered, fast = Strength::Fast;

bool isInvertiblePower(double c) {  // of two, its reciprocal normal in every float type
  int exponent;
  return std::fabs(std::frexp(c, &exponent)) == 0.5 && std::abs(exponent - 1) <= 14;
}

const Rule rules[] = {
    // One operand
    {"neg-neg", exact, "neg(neg(x)) => x"},
    {"abs-neg", floats, "abs(neg(x)) => abs(x)"},
    {"abs-abs", exact, "abs(abs(x)) => abs(x)"},
    {"floor-floor", exact, "floor(floor(x)) => floor(x)"},
    {"ceil-ceil", exact, "ceil(ceil(x)) => ceil(x)"},
    {"trunc-trunc", exact, "trunc(trunc(x)) => trunc(x)"},
    {"round-round", exact, "round(round(x)) => round(x)"},
    {"sign-sign", exact, "sign(sign(x)) => sign(x)"},
    {"not-not", exact, "not(not(p)) => p"},
    // Sums and products
    {"add-minus-zero", exact, "x + -0.0 => x"},
    {"sub-zero", exact, "x - 0 => x"},
    {"minus-zero-sub", exact, "-0.0 - x => neg(x)"},
    {"add-neg", exact, "x + neg(y) => x - y"},
    {"sub-neg", exact, "x - neg(y) => x + y"},
    {"mul-one", exact, "x * 1 => x"},
    {"mul-minus-one", exact, "x * -1 => neg(x)"},
    {"neg-mul-neg", exact, "neg(x) * neg(y) => x * y"},
    {"div-one", exact, "x / 1 => x"},
    {"div-minus-one", exact, "x / -1 => neg(x)"},
    {"div-power-of-two", exact, "x / c => x * (1 / c)", isInvertiblePower},
    {"zero-sub", integer, "0 - x => neg(x)"},
    // Powers
    {"pow-0", exact, "pow(x, 0) => 1"},
    {"pow-1", exact, "pow(x, 1) => x"},
    {"pow-2", exact, "pow(x, 2) => x * x"},
    {"pow-minus-1", exact, "pow(x, -1) => 1 / x"},
    {"pow-half", exact,
     "pow(x, 0.5) => select(x == -inf, inf, sqrt(x + 0))"},  // -0 and -inf are not sqrt's
    {"pow-3", ordered, "pow(x, 3) => x * x * x"},
    {"pow-4", ordered, "pow(x, 4) => x * x * (x * x)"},
    {"pow-minus-half", ordered, "pow(x, -0.5) => select(x == -inf, 0, 1 / sqrt(x + 0))"},
    // Extremes: max gives the first of equals, so zeros of both signs keep their places
    {"max-self", exact, "max(x, x) => x"},
    {"min-self", exact, "min(x, x) => x"},
    {"max-max-right", exact, "max(max(x, y), y) => max(x, y)"},
    {"max-max-left", exact, "max(max(x, y), x) => max(x, y)"},
    {"max-of-max", exact, "max(x, max(x, y)) => max(x, y)"},
    {"min-min-right", exact, "min(min(x, y), y) => min(x, y)"},
    {"min-min-left", exact, "min(min(x, y), x) => min(x, y)"},
    {"min-of-min", exact, "min(x, min(x, y)) => min(x, y)"},
    {"max-max-constants", exact, "max(max(x, c), d) => max(x, max(c, d))"},
    {"min-min-constants", exact, "min(min(x, c), d) => min(x, min(c, d))"},
    {"max-abs", floats, "max(abs(x), 0) => abs(x)"},
    // Choices
    {"select-not", exact, "select(not(p), x, y) => select(p, y, x)"},
    {"select-then-same", exact, "select(p, select(p, x, y), z) => select(p, x, z)"},
    {"select-else-same", exact, "select(p, x, select(p, y, z)) => select(p, x, z)"},
    {"not-less", integer, "not(x < y) => y <= x"},
    {"not-less-equal", integer, "not(x <= y) => y < x"},
    // Algebra
    {"div-const", fast, "x / c => x * (1 / c)"},
    {"mul-const-const", fast, "x * c * d => x * (c * d)"},
    {"add-const-const", fast, "x + c + d => x + (c + d)"},
    {"factor", fast, "x * y + x * z => x * (y + z)"},
    {"sqrt-squared", fast, "sqrt(x) * sqrt(x) => x"},
    {"exp-exp", fast, "exp(x) * exp(y) => exp(x + y)"},
    {"exp-log", fast, "exp(log(x)) => x"},
    {"log-exp", fast, "log(exp(x)) => x"},
};

bool commutes(Op op) {
  return op == Op::Add || op == Op::Mul || op == Op::And || op == Op::Or || op == Op::Eq ||
         op == Op::Xor;
}
bool standsForConstant(const std::string& name) { return name == "c" || name == "d"; }

using Bindings = std::map<std::string, Expr>;

bool matches(const Expr& pattern, const Expr& e, Bindings& bound) {
  if (const Var* v = pattern.as<Var>()) {
    if (pattern.type() != e.type() || (standsForConstant(v->name) && !e.as<Imm>())) return false;
    const auto [it, fresh] = bound.emplace(v->name, e);
    return fresh || it->second == e;
  }
  if (pattern.as<Imm>()) return pattern == e;
  const Apply *want = pattern.as<Apply>(), *have = e.as<Apply>();
  if (!want || !have || want->op != have->op) return false;
  const auto inOrder = [&](bool swapped) {
    Bindings trial = bound;
    const size_t n = want->args.size();
    for (size_t i = 0; i < n; ++i)
      if (!matches(want->args[i], have->args[swapped ? n - 1 - i : i], trial)) return false;
    bound = std::move(trial);
    return true;
  };
  return inOrder(false) || (commutes(want->op) && inOrder(true));
}

/// An application to numbers as a number. Correctly rounded ops are exact: a double holds enough bits of f32 and less.
Expr folded(const Expr& e) {
  const Apply* a = e.as<Apply>();
  if (!a) return {};
  std::vector<double> x;
  for (const Expr& arg : a->args) {
    const Imm* i = arg.as<Imm>();
    if (!i) return {};
    x.push_back(isFloat(arg.type()) ? i->real : static_cast<double>(i->integer));
  }
  const DType from = a->args[0].type(), to = e.type();
  if (a->op == Op::ToBits) return immInteger(to, evalToBits(from, x[0]));
  if (a->op == Op::FromBits) return imm(to, evalFromBits(to, a->args[0].as<Imm>()->integer));
  if (!isFloat(from)) return {};  // integers fold where they are made
  if (a->op == Op::Fma) return to == DType::F64 ? imm(to, evalFloat(a->op, x)) : Expr();
  const double value = evalFloat(a->op, x);
  return to == DType::Bool ? boolean(value != 0) : imm(to, value);
}

Expr foldAll(const Expr& e) { return rewrite(e, folded); }

/// Rules by the op that they start with, for one type.
using Index = std::map<Op, std::vector<TypedRule>>;
const Index& indexOf(DType type) {
  static std::mutex guard;
  static std::map<DType, Index> all;
  const std::lock_guard lock(guard);
  const auto [it, fresh] = all.try_emplace(type);
  if (fresh)
    for (TypedRule& r : typedRules(type))
      if (const Apply* a = r.pattern.as<Apply>()) it->second[a->op].push_back(std::move(r));
  return it->second;
}

bool allowed(const Rule& r, DType type, Numerics mode) {
  switch (r.strength) {
    case Strength::Exact: return true;
    case Strength::Integer: return !isFloat(type);
    case Strength::Float: return isFloat(type);
    case Strength::Ordered: return mode >= Numerics::Ordered && isFloat(type);
    case Strength::Fast: return mode >= Numerics::Fast && isFloat(type);
  }
  return false;
}

Expr applied(const Expr& e, DType type, Numerics mode) {
  const Index& index = indexOf(type);
  const auto it = index.find(e.as<Apply>()->op);
  if (it == index.end()) return {};
  for (const TypedRule& r : it->second) {
    Bindings bound;
    if (!allowed(*r.rule, type, mode) || !matches(r.pattern, e, bound)) continue;
    if (r.rule->when && !r.rule->when(bound.at("c").as<Imm>()->real)) continue;
    return foldAll(substitute(r.replacement, {bound.begin(), bound.end()}));
  }
  return {};
}

/// Does every value of `a` exist in `b`?
bool embeds(DType a, DType b) {
  if (a == b) return true;
  if (isFloat(b)) {
    const int mantissa = b == DType::F64 ? 53 : b == DType::F32 ? 24 : b == DType::F16 ? 11 : 8;
    if (isFloat(a)) return b == DType::F64 || (b == DType::F32 && a != DType::F64);
    return bits(a) - (isSigned(a) ? 1 : 0) <= mantissa && (b != DType::F16 || bits(a) <= 11);
  }
  if (isFloat(a) || b == DType::Bool) return false;
  return bits(b) > bits(a) && (isSigned(b) || !isSigned(a));
}

/// A conversion behind one that loses nothing starts at the value itself.
Expr castOfCast(const Expr& e) {
  const Cast* outer = e.as<Cast>();
  const Cast* inner = outer ? outer->arg.as<Cast>() : nullptr;
  return inner && embeds(inner->arg.type(), outer->arg.type()) ? cast(e.type(), inner->arg)
                                                               : Expr();
}

}  // namespace

std::span<const Rule> allRules() { return rules; }

std::vector<TypedRule> typedRules(DType type) {
  const std::vector<std::pair<std::string, DType>> names{
      {"x", type}, {"y", type},        {"z", type},       {"c", type},
      {"d", type}, {"p", DType::Bool}, {"q", DType::Bool}};
  std::vector<TypedRule> out;
  for (const Rule& r : rules) {
    const size_t arrow = r.text.find("=>");
    TEKTITE_CHECK(arrow != std::string_view::npos, "rule {}: {}", r.name, r.text);
    try {
      const Expr from = parseScalar(r.text.substr(0, arrow), names, type);
      const Expr to = parseScalar(r.text.substr(arrow + 2), names, from.type());
      if (from.type() == to.type()) out.push_back({&r, from, to});
    } catch (const UserError&) {  // the text is of no sense on this type
    }
  }
  return out;
}

Expr applyRules(const Expr& root, Numerics mode) {
  constexpr int kMostSteps =
      16;  // at one node; rules make smaller or cheaper, so this is never reached
  return rewrite(root, [&](const Expr& e) -> Expr {
    Expr now = e;
    for (int i = 0; i < kMostSteps; ++i) {
      Expr next = folded(now);
      if (!next) next = castOfCast(now);
      if (const Apply* a = now.as<Apply>(); a && !next) {
        const DType last = a->args.back().type();
        next = applied(now, last, mode);
        if (!next && now.type() != last) next = applied(now, now.type(), mode);
      }
      if (!next || next == now) break;
      now = next;
    }
    return now;
  });
}

}  // namespace tektite
