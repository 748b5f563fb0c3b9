#pragma once
#include "fusion/plan_body.h"

namespace tektite {

/// What lies between two scans of equal steps and works step by step (maps, products, views, reductions over other axes) moves into the second
/// one's body, where the two then cost less as one kernel than apart: it reads the first one's slices directly.
Graph absorbIntoScans(const Graph&, const Target&, const FusionOptions&, PlanMemory&);

/// The scan with these nodes, which lead to its scanned operands, in its body. Nothing where one of them doesn't work step by step.
std::optional<Node> absorbed(const Graph&, int scan, const std::vector<int>& path);

}  // namespace tektite
