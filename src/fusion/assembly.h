#pragma once
#include "fusion/cost.h"
#include "fusion/stages.h"

namespace tektite {

/// A plan of one tile list, the group's list `number`, and its buffers: the tiling and its regions written into stages and buffers, as
/// lowering reads them.
GroupPlan assembled(StageSet, const GroupShape&, const Tiled&, const Target&, int number);
/// The tile axis at place `i` of the loops' order.
TileAxis tileAxis(const GroupShape&, const Tiled&, size_t i);

}  // namespace tektite
