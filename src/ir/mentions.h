#pragma once
#include "ir/expr.h"

namespace tektite {

/// Is the variable anywhere in it?
bool mentions(const Expr&, const std::string& variable);
bool mentions(const std::vector<Expr>&, const std::string& variable);  ///< in any of them

}  // namespace tektite
