#pragma once
#include "ir/facts.h"
#include "ir/graph.h"

namespace tektite {

/// What is known of the coordinates d0.. of a result: 0 <= d < extent, for extents over named dims as assumptions.
struct Coordinates {
  Ranges ranges;
  std::vector<Expr> below;
  Coordinates(const TensorType&, const Ranges& dims);
};

}  // namespace tektite
