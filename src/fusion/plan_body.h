#pragma once
#include "fusion/defs.h"
#include "fusion/fuse.h"

namespace tektite {

/// planGroup with the access forms at hand, one a node of the body.
PlanResult planBody(const Graph& body, const AccessOf&, const Target&, const FusionOptions&,
                    const Orders& = {});
AccessOf accessesOf(const Graph&);

}  // namespace tektite
