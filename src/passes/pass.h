#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/numerics.h"

namespace tektite {

/// A pure function graph -> graph, registered by name in its own file. `needs`: the pipeline runs it in this mode or a freer one.
struct Pass {
  std::string_view name, doc;
  Graph (*run)(const Graph&);
  Numerics needs;
  Pass(std::string_view name, std::string_view doc, Graph (*run)(const Graph&),
       Numerics needs = Numerics::Strict);
};
std::vector<const Pass*> allPasses();         ///< sorted by name
const Pass* findPass(std::string_view name);  ///< null where there is none

struct PassOptions {
  std::vector<std::string> passes;  ///< empty: the pipeline's that `numerics` allows
  std::vector<std::string> disabled;
  Numerics numerics = Numerics::Ordered;
  std::string stopAfter;
  int bisect = -1;         ///< run only the first N
  bool verifyEach = true;  ///< the rules after every pass; else only after the last
  std::function<void(std::string_view pass, const Graph& after, bool changed, double seconds)>
      observe;  ///< print-after, dump, time
};
/// Runs the pipeline and verifies. UserError: an unknown pass's name.
Graph runPasses(const Graph&, const PassOptions&);
const std::vector<std::string_view>& pipeline();  ///< the order: passes/pipeline.cpp

}  // namespace tektite
