#include "ir/lanes.h"

#include "ir/facts.h"

namespace tektite {

std::optional<LanePlaces> lanePlaces(int lanes, const std::function<Linear(int lane)>& at) {
  LanePlaces out{at(0), {0}};
  for (int l = 1; l < lanes; l++) {
    const Linear way = plus(at(l), out.first, -1);
    if (!way.terms.empty()) return std::nullopt;
    out.distances.push_back(way.constant);
  }
  return out;
}

}  // namespace tektite
