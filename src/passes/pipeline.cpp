#include "passes/pass.h"

namespace tektite {

const std::vector<std::string_view>& pipeline() {
  static const std::vector<std::string_view> order = {
      "simplify-bodies",          // splats into bodies: fewer operands to fold and compare
      "simplify-bodies-ordered",
      "simplify-bodies-fast",
      "compose-views",            // before folding: of a chain over a constant only the last view is made
      "fold-constants",
      "cse",                      // after composition: equal chains are equal views
      "dce",
  };
  return order;
}

}  // namespace tektite
