#pragma once
#include "ir/expr.h"

namespace tektite {

/// Names for subexpressions that are used several times, where the expressions written out would be long: text has no other way to share. The
/// roots then read variables of these names; each value reads only names before it. Nothing where the text stays short.
std::vector<std::pair<std::string, Expr>> nameShared(std::vector<Expr>& roots,
                                                     const std::string& prefix);

}  // namespace tektite
