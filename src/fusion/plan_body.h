#pragma once
#include "fusion/defs.h"
#include "fusion/fuse.h"

namespace tektite {

/// What planning of one graph keeps between the groups that it asks about: bodies of scans, fused, by what they compute.
struct PlanMemory {
  std::map<Hash, std::shared_ptr<const Fused>> bodies;
};
/// planGroup with the access forms at hand, one a node of the body.
PlanResult planBody(const Graph& body, const AccessOf&, const Target&, const FusionOptions&,
                    PlanMemory&, const Orders& = {});
AccessOf accessesOf(const Graph&);

}  // namespace tektite
