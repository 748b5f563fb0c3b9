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
      "trim-padding",  // behind composition: borders are part of the windows. Before folding: weights are cut there
      "fold-constants",
      "cse",              // after composition: equal chains are equal views
      "repeat-results",   // behind folding: what is a splat is known
      "narrow-products",  // behind folding: zero points and scales are numbers where they can be
      "defer-scales",
      "shorten-windows",  // behind these: what they make narrow is sooner done as it is
      "compose-views",    // what these made, once more
      "simplify-bodies",
      "fold-constants",
      "cse",
      "dce",
  };
  return order;
}

}  // namespace tektite
