#pragma once
#include <string>
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// How one stage's points are dealt over the threads of a team. Axes are indices into Stage::axes.
struct TeamStage {
  std::vector<int>
      dealt;  ///< space axes whose points go to the threads; the last one to consecutive threads
  std::vector<int> serial;  ///< the other space axes, in order: one thread walks them (scatters)
  std::vector<int> reduce;  ///< outermost first
  int vector = 1;           ///< elements of the last dealt axis side by side in one thread
  int group = 1;  ///< threads that share the reductions of a point, a power of two; 1: each its own
};

/// Stages of all tile lists of a kernel, run by teams of one size.
struct TeamSchedule {
  int threads = 0;  ///< of a team; 0: a tile is one thread's (CPU)
  std::vector<std::vector<TeamStage>> lists;
};

/// From the target's numbers and the strides of what is touched. `threads`: the team's size, 0: as many as the stages can use.
TeamSchedule chooseTeam(const GroupPlan&, const Target&, int threads = 0);
std::string toText(const GroupPlan&, const TeamSchedule&);

}  // namespace tektite
