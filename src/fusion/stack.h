#pragma once
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// What stacks of tile lists cost: lists of one kernel share a launch, and the cores that one of them leaves idle.
struct ListTime {
  double tiles, seconds;  ///< seconds of one of its tiles, on its core
};
/// Of a list that takes `seconds` when it runs alone, after the launch.
ListTime listTime(const TileList&, double seconds, const Target&);

/// Seconds after the launch. CPUs deal tiles in contiguous runs, so that lists are uneven where some tiles are longer; GPUs deal them one after
/// the other. All bytes still come at the rate of the memory where they rest.
double secondsOfStack(const std::vector<ListTime>&, const Cost&, const Target&);

/// Adds the counts of a list, or of several, to those of the lists before; not the seconds.
void addCounts(Cost& all, const Cost& one);

/// What lists lose in one launch beside what they gain: tensors of both are between a writer and its reader, and a tile of the one has less room
/// where the other one's take more of a GPU's shared memory.
double lostInStack(const Cost& a, const Cost& b, const Target&);

}  // namespace tektite
