#pragma once
#include "fusion/plan_body.h"

namespace tektite {

/// Can this node become one kernel? A scan of static shapes whose body has no control flow and no call.
bool isKernelScan(const Node&);

/// The plan of a body with scans of equal steps: a scan's body is fused as any graph, and its groups run once a step. A scan may read slices
/// that another one stacks; other nodes come ahead of all steps or behind them.
PlanResult planScan(const Graph& body, const Target&, const FusionOptions&, PlanMemory&);

/// The same for one core with explicit memories, where nothing is gained by running scans side by side: one after the other in one kernel, with
/// what lies between them, so that a scan's weights have the scratchpad for themselves.
PlanResult planScansInTurn(const Graph& body, const Target&, const FusionOptions&, PlanMemory&);

/// Does a tile of the part read no state but at the elements that it stores itself? Then it can run all steps by itself.
bool readsOwnStates(const ScanPart&);

}  // namespace tektite
