#pragma once
#include <set>
#include <string>
#include <vector>

#include "fusion/stage_memory.h"

namespace tektite {

/// Joins stages that can be one nest: a map into the reduction or map that reads it at the same point, a map behind the
/// reductions that it reads at its own point, and independent nests of equal axes that read the same data. Stores that nobody else
/// reads go, unless `kept`. The result is in topological order. Axis variables of different stages are different.
std::vector<FormedStage> mergeStages(std::vector<FormedStage>, const std::set<std::string>& kept);

}  // namespace tektite
