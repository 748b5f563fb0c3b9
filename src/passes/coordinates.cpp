#include "passes/coordinates.h"

#include <algorithm>

namespace tektite {

Coordinates::Coordinates(const TensorType& t, const Ranges& dims) : ranges(dims) {
  for (int a = 0; a < t.rank(); ++a) {
    const int64_t most = boundsOf(t.shape[a], dims).high;
    ranges[coordinate(a)] = {0, std::max<int64_t>(most - 1, 0)};
    if (!asInteger(t.shape[a])) below.push_back(lt(var(coordinate(a)), t.shape[a]));
  }
}

}  // namespace tektite
