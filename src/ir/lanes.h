#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "ir/expr.h"

namespace tektite {

/// Where lanes read: lane 0's place, and how far each lane's lies from it.
struct LanePlaces {
  Linear first;
  std::vector<int64_t> distances;
};
/// Nothing where the distances of the values that `lane` gives aren't constants.
std::optional<LanePlaces> lanePlaces(int lanes, const std::function<Linear(int lane)>& at);

}  // namespace tektite
