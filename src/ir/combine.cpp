#include "ir/combine.h"

#include <limits>

#include "support/check.h"

namespace tektite {
namespace {

/// The value below (or above) which no value of the type lies.
Expr extreme(DType type, bool lowest) {
  if (isFloat(type))
    return imm(type, lowest ? -std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::infinity());
  const int width = bits(type);
  if (!isSigned(type)) return immInteger(type, lowest ? 0 : -1);
  const int64_t low =
      width == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (width - 1));
  return immInteger(type, lowest ? low : -(low + 1));
}

struct Row {
  std::string_view name;
  Op op;
  Expr (*identity)(DType);
};
const Row rows[] = {
    {"sum", Op::Add, [](DType t) { return imm(t, 0); }},
    {"product", Op::Mul, [](DType t) { return imm(t, 1); }},
    {"max", Op::Max, [](DType t) { return extreme(t, true); }},
    {"min", Op::Min, [](DType t) { return extreme(t, false); }},
    {"any", Op::Or, [](DType t) { return immInteger(t, 0); }},
    {"all", Op::And, [](DType t) { return immInteger(t, -1); }},
};
const Row* find(std::string_view name) {
  for (const Row& r : rows)
    if (r.name == name) return &r;
  return nullptr;
}

}  // namespace

std::vector<Expr> Combine::join(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
  TEKTITE_CHECK(a.size() == arity() && b.size() == arity(),
                "{} joins states of {}, found {} and {}", name, arity(), a.size(), b.size());
  std::unordered_map<std::string, Expr> states;
  for (size_t i = 0; i < arity(); i++) {
    states[left[i]] = a[i];
    states[right[i]] = b[i];
  }
  std::vector<Expr> out;
  for (const Expr& e : result) out.push_back(substitute(e, states));
  return out;
}

Combine builtinCombine(std::string_view name, DType type) {
  const Row* row = find(name);
  TEKTITE_CHECK(row, "no combine '{}'", name);
  return {std::string(name),
          {"a"},
          {"b"},
          {type},
          {apply(row->op, {var("a", type), var("b", type)})},
          {row->identity(type)}};
}

bool isBuiltinCombine(std::string_view name) { return find(name) != nullptr; }
bool combines(std::string_view name, DType type) {
  const Row* row = find(name);
  return row && resultType(row->op, std::vector{type, type});
}

Combine argCombine(bool largest, DType type) {
  const Expr m = var("m", type), n = var("n", type), i = var("i"), j = var("j");
  Expr better = largest ? lt(m, n) : lt(n, m), equal = eq(m, n);
  if (isFloat(type)) {
    const Expr leftNan = apply(Op::IsNan, {m}), rightNan = apply(Op::IsNan, {n});
    better = apply(Op::Or, {better, logicalAnd(rightNan, logicalNot(leftNan))});
    equal = apply(Op::Or, {equal, logicalAnd(leftNan, rightNan)});
  }
  const Expr right = apply(Op::Or, {better, logicalAnd(equal, lt(j, i))});
  return {fmt::format("first_{}_{}", largest ? "max" : "min", tektite::name(type)),
          {"m", "i"},
          {"n", "j"},
          {type, DType::I64},
          {select(right, n, m), select(right, j, i)},
          {extreme(type, largest), Expr(std::numeric_limits<int64_t>::max())}};
}

}  // namespace tektite
