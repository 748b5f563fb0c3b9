#include "passes/pass.h"

namespace tektite {

const std::vector<std::string_view>& pipeline() {
  static const std::vector<std::string_view> order = {
      "unroll-scans",     // before other passes look into their bodies
      "sink-constants",   // early: what follows looks into bodies one by one
      "compose-views",    // views of splats are splats
      "simplify-bodies",  // splats into bodies: fewer operands to fold and compare
      "simplify-bodies-ordered",
      "simplify-bodies-fast",
      "compose-views",  // again: maps that went may have stood between views. Before folding: only the last view is made
      "fold-constants",
      "cse",  // after composition: equal chains are equal views
      "dce",
  };
  return order;
}

}  // namespace tektite
