#pragma once
#include <span>
#include <string_view>

#include "ir/expr.h"
#include "ir/numerics.h"

namespace tektite {

/// What a rule may change. Exact: nothing, bit for bit (any NaN is NaN), on every type that the text fits; Integer, Float: the same,
/// on integers and bool, or on floats only; Ordered: the last bits of floats; Fast: rounding, overflow on the way, what follows from
/// algebra.
enum class Strength : uint8_t { Exact, Integer, Float, Ordered, Fast };

/// A scalar rule as text, `pattern => replacement`. x, y, z: anything of one type; p, q: bool; c, d: constants of that type.
struct Rule {
  std::string_view name;
  Strength strength;
  std::string_view text;
  bool (*when)(double c) = nullptr;  ///< a condition on the constant c
};
std::span<const Rule> allRules();

/// A rule on one type: two expressions over its variables. Nothing where the text doesn't fit the type.
struct TypedRule {
  const Rule* rule;
  Expr pattern, replacement;
};
std::vector<TypedRule> typedRules(DType);

/// The expression with constants folded and the rules of this mode applied until none fits, innermost first.
Expr applyRules(const Expr&, Numerics);

}  // namespace tektite
