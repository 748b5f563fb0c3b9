#pragma once
#include "fusion/plan.h"

namespace tektite {

/// What several stages of a tile read of an input whose rows there fall into few sets of the near cache (planes whose size is a power of two)
/// doesn't stay: the first of them keeps it in scratch, where possible the one that a later stage fills with what it makes of it, and the
/// others read that.
void keepRead(GroupPlan&, TileList&, const Target&);

}  // namespace tektite
