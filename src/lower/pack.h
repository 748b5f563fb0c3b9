#pragma once
#include "lower/lower.h"

namespace tektite {

/// Puts what the schedule packs into panels: constants become PackedConstants, other operands a stage of their own before the contraction,
/// outside of the tile loops that they don't depend on. Loads become [other axes..., v // W, reduce axes..., v % W]. The schedule gets an
/// entry for each new stage.
void packOperands(GroupPlan& plan, Schedule& schedule, const Target&,
                  std::vector<PackedConstant>& packed);

}  // namespace tektite
