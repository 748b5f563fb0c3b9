#pragma once
#include "ir/expr.h"

namespace tektite {

/// Names for subexpressions that are used several times, where the expressions written out would be long: text has no other way to share. The
/// roots then read variables of these names; each value reads only names before it. Nothing where the text stays short. `Sharing::Values` names
/// what can be computed ahead of its uses; `Sharing::All` also conditions, indices, and what the indices of loads share: for readers.
enum class Sharing { Values, All };
std::vector<std::pair<std::string, Expr>> nameShared(std::vector<Expr>& roots,
                                                     const std::string& prefix,
                                                     Sharing sharing = Sharing::Values);

}  // namespace tektite
