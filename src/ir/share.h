#pragma once
#include <functional>

#include "ir/expr.h"

namespace tektite {

/// May a load run whether or not the `select` around it takes its arm?
using RunsAnywhere = std::function<bool(const Load&)>;

/// Names for subexpressions that are used several times, where the expressions written out would be long: text has no other way to share. The
/// roots then read variables of these names; each value reads only names before it. Nothing where the text stays short. With `anywhere`, for code:
/// what is named can be computed ahead of its uses, and no index that only coordinates make has a name (bounds are proven of those). Without, for
/// readers: anything.
std::vector<std::pair<std::string, Expr>> nameShared(std::vector<Expr>& roots,
                                                     const std::string& prefix,
                                                     const RunsAnywhere& anywhere = {});

}  // namespace tektite
