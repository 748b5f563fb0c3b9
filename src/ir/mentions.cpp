#include "ir/mentions.h"

#include <algorithm>

namespace tektite {

bool mentions(const Expr& e, const std::string& variable) {
  return std::ranges::count(freeVars(e), variable) > 0;
}

bool mentions(const std::vector<Expr>& list, const std::string& variable) {
  return std::ranges::any_of(list, [&](const Expr& e) { return mentions(e, variable); });
}

}  // namespace tektite
