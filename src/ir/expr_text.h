#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ir/expr.h"
#include "support/lexer.h"

namespace tektite {

/// What names mean where an expression is parsed. A name of a rank-0 buffer alone is a load.
struct Names {
  std::function<std::optional<DType>(std::string_view)> variable;
  std::function<std::optional<DType>(std::string_view)> buffer;
};

/// Parses the name of an element type.
DType parseDType(Lexer&);
/// Parses one expression. Bare numbers take their neighbour's type, or `expected` where there is none. Errors are UserErrors.
Expr parseExpr(Lexer&, const Names&, DType expected);
/// The same where the expression may have any type: its own, or `fallback` where all in it are numbers.
Expr parseExprOfAnyType(Lexer&, const Names&, DType fallback);
/// The same from a whole text, for scalar text in the code: `operands` names every variable and its type.
Expr parseScalar(std::string_view text, const std::vector<std::pair<std::string, DType>>& operands,
                 DType expected);

}  // namespace tektite
