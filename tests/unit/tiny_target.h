#pragma once
#include <algorithm>

#include "fusion/plan.h"

namespace tektite {

/// A machine whose near memory holds no row.
inline Target tinyTarget(Target t = findTarget("cpu:avx2")) {
  for (Level& l : t.levels) {
    if (l.name == "l1") l.bytes = 1 << 10;
    if (l.name == "l2") l.bytes = 2 << 10;
    if (l.name == "l3") l.bytes = 4 << 10;
  }
  return t;
}
/// Does it carry reductions along an axis?
inline bool walks(const GroupPlan& plan) {
  return std::ranges::any_of(plan.lists, [](const TileList& list) {
    return std::ranges::any_of(list.stages, &Stage::after);
  });
}

}  // namespace tektite
