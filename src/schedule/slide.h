#pragma once
#include <algorithm>
#include <optional>

#include "fusion/plan.h"

namespace tektite {

/// A reduce axis along which a product's window moves over the same elements as along its rows: what is read at (row, tap) is read again at
/// (row + tapStep, tap - rowStep). Written out by place, rowStep * row + tapStep * tap, each element is loaded once for all rows and taps.
struct Slide {
  int axis;  ///< of the taps, of the stage's
  int64_t taps, rowStep, tapStep;

  /// Elements that so many rows read.
  int64_t places(int64_t rows) const {
    return rows * taps -
           std::max<int64_t>(0, rows - tapStep) * std::max<int64_t>(0, taps - rowStep);
  }
};

/// Along rows of the stage's axis `rows`: nothing where the one factor doesn't slide, or the other one depends on the rows.
std::optional<Slide> slideAlong(const GroupPlan&, const Stage&, int rows);

}  // namespace tektite
