#pragma once
#include <string>
#include <vector>

#include "schedule/layout.h"
#include "schedule/register_tile.h"

namespace tektite {

/// The loads of a multiplication, for lanes of `width` and rows along two axes. What is read as it lies, moves along both and goes by several
/// times comes from L2 each time where the near cache doesn't hold all rows.
std::vector<TileLoad> loadsAlong(const std::vector<StageAccess>&, const Stage&,
                                 const StageAxis& lanes, const StageAxis* rows,
                                 const std::vector<std::string>& packed, int width, const Target&);

}  // namespace tektite
