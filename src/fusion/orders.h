#pragma once
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// Gives scratch buffers the memory order of the buffers that are read or stored at the same place (a padded copy of a channels-last tensor is
/// channels-last, and so is what leads to a channels-last result), or of what a copy reads; else row-major.
void spreadOrders(std::vector<PlanBuffer>&, const std::vector<Stage>&);

}  // namespace tektite
