#pragma once
#include "fusion/fuse.h"

namespace tektite {

/// Can this node become one kernel? A scan of static shapes whose body has no control flow and no call.
bool isKernelScan(const Node&);

/// The plan of a body that is one scan over its inputs and constants: the scan's body is fused as any graph, and its groups run once a step.
PlanResult planScan(const Graph& body, const Target&, const FusionOptions&);

}  // namespace tektite
