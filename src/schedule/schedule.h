#pragma once
#include <string>
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// How one stage's nest is laid out. Axes are indices into Stage::axes; -1: none.
struct StageSchedule {
  int vectorAxis = -1;           ///< lanes run over this axis (space or reduce)
  int lanes = 1;
  int vectors = 1;               ///< vectors side by side along vectorAxis in one register tile
  int unrollAxis = -1;           ///< register tile's other axis (a space axis)
  int unroll = 1;
  std::vector<int> order;        ///< loop order of the outer loops, outermost first: every axis once (tile-level loops)
  std::vector<std::string> packed;  ///< loads of these buffers go through panels [vectorAxis / (lanes * vectors)][reduce...][lanes * vectors]
  bool stream = false;           ///< final stores past the caches
};

struct Schedule {
  std::vector<std::vector<StageSchedule>> lists;  ///< for each tile list, for each stage
};

Schedule chooseSchedule(const GroupPlan&, const Target&);
std::string toText(const Schedule&);

}  // namespace tektite
