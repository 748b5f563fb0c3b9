#pragma once
#include <memory>

#include "backends/npu/simulate.h"
#include "fusion/fuse.h"
#include "lower/dma.h"

namespace tektite {

struct CountedKernel {
  std::shared_ptr<const GroupPlan> plan;
  Simulated counted;
};
/// The kernels of a graph, fused or not, for a machine with explicit memories, and what each moves and takes there.
inline std::vector<CountedKernel> countedKernels(const Graph& g, const Target& target,
                                                 bool unfused) {
  FusionOptions options;
  options.unfused = unfused;
  std::vector<CountedKernel> out;
  for (const Node& n : fuse(g, target, options).graph.nodes) {
    const Group* group = n.as<Group>();
    if (!group) continue;
    const LoweredKernel k = lowerExplicit(*group->plan, target, "k");
    out.push_back({group->plan, countKernel(k.module, k.kernel(), target, {})});
  }
  return out;
}

}  // namespace tektite
