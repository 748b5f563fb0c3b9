#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/expr.h"

namespace tektite {

/// Scalar text with names for intermediate values. A line is `name = expression` (f32), `name: type = expression`,
/// `name = horner(v, c0, c1, ...)` (the polynomial c0 + c1 * v + ..., by fma), or, last of all, the result: an expression of the
/// type `result`. A name may be given again. Shared values are shared in the Expr.
Expr parseScript(std::string_view text, const std::vector<std::pair<std::string, DType>>& operands,
                 DType result);

/// How a function is expanded, in scripts over x (and y) of type f32. Constructing one registers it; each has one file or
/// shares its family's. Scripts may call other functions. No sum may have a product as operand (products are added by fma):
/// so contraction cannot change a bit, and strict and ordered agree.
struct MathDef {
  MathDef(Op op, std::string exact, std::string fast = {});  ///< no fast form: the exact one
  Op op;
  std::string exact, fast;
};

}  // namespace tektite
