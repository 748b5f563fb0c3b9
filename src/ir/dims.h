#pragma once
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tektite {

/// Arithmetic of dim expressions: exact over polynomials in named dims, whatever else (//, min, max ...) counts as one unknown.
/// Needed where two products of dims have to be proven equal, divided, or an index proven in range of a symbolic extent.

Expr normalDim(
    const Expr&);  ///< one text for equal polynomials: products expanded, like terms collected
bool sameDim(const Expr& a, const Expr& b);  ///< provably equal
bool sameShape(const std::vector<Expr>& a, const std::vector<Expr>& b);
Expr product(const std::vector<Expr>& shape);  ///< 1 where empty
/// `a / b` where b divides a exactly, as [batch * seq * 384] / [batch * seq * 12]; nothing where that isn't provable.
std::optional<Expr> exactQuotient(const Expr& a, const Expr& b);
/// Largest and smallest value of an index over coordinates d0.. of a result of this shape, as dim expressions.
Expr upperBound(const Expr& index, const std::vector<Expr>& shape, const Ranges& dims);
Expr lowerBound(const Expr& index, const std::vector<Expr>& shape, const Ranges& dims);
/// Is `e` >= 0 for all dims in their ranges? False where it can't tell.
bool nonNegative(const Expr& e, const Ranges& dims);
/// Is 0 <= index < extent for every coordinate of a result of this shape?
bool inRange(const Expr& index, const Expr& extent, const std::vector<Expr>& shape,
             const Ranges& dims);

}  // namespace tektite
