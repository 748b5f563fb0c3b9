#pragma once
#include "schedule/schedule.h"

namespace tektite {

/// Where a stage reads again what an earlier stage of its tile brought from main memory, it also fetches the same place of the next tile: its
/// arithmetic covers what the memory takes. Puts these operands into StageSchedule::ahead.
void fetchAhead(const GroupPlan&, const Target&, Schedule&);

}  // namespace tektite
