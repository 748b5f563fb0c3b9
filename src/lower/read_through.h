#pragma once
#include "fusion/plan.h"
#include "ir/target.h"

namespace tektite {

/// Takes copies with a fill around them out of a CPU's plan where the one product that reads such a copy uses each element only a few
/// times, as depthwise convolutions do: it reads the source, guarded, and the loops around it are split where the guard changes
/// (`split-guards`). What the copy computes of its source on the way is done by the stage that stores the source.
void readThrough(GroupPlan& plan, const Target& target);

}  // namespace tektite
