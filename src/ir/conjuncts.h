#pragma once
#include "ir/expr.h"

namespace tektite {

/// What a condition joins with `&`, in its order; none of an empty one.
std::vector<Expr> conjuncts(const Expr&);

}  // namespace tektite
