#pragma once
#include <string>
#include <vector>

#include "ir/expr.h"

namespace tektite {

/// How two states become one: a tuple of values, associative and commutative up to rounding, with its identity.
/// `result[i]` is over the variables left[0..n) and right[0..n). Text: combine f(m: f32; n: f32) = max(m, n) identity -inf.
struct Combine {
  std::string name;
  std::vector<std::string> left, right;
  std::vector<DType> types;
  std::vector<Expr> result;
  std::vector<Expr> identity;

  size_t arity() const { return types.size(); }
  /// The combined state of two states.
  std::vector<Expr> join(const std::vector<Expr>& a, const std::vector<Expr>& b) const;
};

/// The one-value combines that need no declaration: sum, product, max, min, any, all; as signs in kernels: + * max min | &.
Combine builtinCombine(std::string_view name, DType type);
bool isBuiltinCombine(std::string_view name);
bool combines(std::string_view name, DType type);  ///< is it one for values of this type?
/// The index of the first (smallest index) extreme: (value, i64 index) pairs. NaN counts as the extreme.
Combine argCombine(bool largest, DType type);

}  // namespace tektite
