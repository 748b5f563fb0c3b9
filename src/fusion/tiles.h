#pragma once
#include "fusion/cost.h"

namespace tektite {

/// The cheapest tiling of a group's stages that the search finds, with what follows from it.
/// `sync`: reductions may be split across tiles (their partial results are combined in index order).
Tiled chooseTiles(GroupShape&, const StageSet&, const std::vector<StageWork>&, const Target&,
                  bool sync);
/// The same where all stages walk the last root axis together (GroupShape::walked).
Tiled chooseWalk(const GroupShape&, const StageSet&, const std::vector<StageWork>&, const Target&);

}  // namespace tektite
