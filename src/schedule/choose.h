#pragma once
#include <optional>

#include "schedule/layout.h"
#include "schedule/schedule.h"

namespace tektite {

constexpr int kTurnedLanes = 16;  // of a block that is transposed in registers

// What the choices for both kinds of stage look at.

/// The widest element that vectors of this stage hold: stored values and accumulators, not index arithmetic.
int elementBytes(const GroupPlan&, const Stage&);
int64_t smallestExtent(const StageAxis&, const TileList&);  ///< over the tiles
/// The share of the lanes, or rows, that do something where `n` go `step` at a time.
double usedShare(int64_t n, int64_t step);
bool idempotent(const Stage&);  ///< may points be stored twice?
/// Does a stored value depend on what was there before? Such points are computed once only: blocks of rows may not overlap.
bool updates(const Stage&);
/// Loops over space axes, the largest stride of the stores outermost, then the reduce axes by the strides of what they read, or in order.
std::vector<int> loopOrder(const GroupPlan&, const Stage&, const std::vector<StageAccess>&,
                           int vectorAxis);
/// Vector work of one point if lanes run along the axis: each access its share.
double costAlong(const Stage&, const std::vector<StageAccess>&, int axis, int lanes);

/// For maps and reductions, and products that no register tile fits.
StageSchedule chooseSimple(const GroupPlan&, const TileList&, const Stage&, const Target&);
/// For a sum of products: register tile, panels, loop order.
StageSchedule chooseContraction(const GroupPlan&, const TileList&, const Stage&, const Target&);

}  // namespace tektite
