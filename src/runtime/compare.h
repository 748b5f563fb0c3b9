#pragma once
#include <optional>
#include <string>

#include "runtime/array.h"

namespace tektite {

struct Tolerance {
  double relative = 1e-3,
         absolute = 1e-7;           ///< |a - b| <= absolute + relative * |b|, element by element
  std::optional<double> ofLargest;  ///< instead: |a - b| <= ofLargest * max|b|
};
struct Comparison {
  bool ok = true;
  double maxAbs =
      0;  ///< largest |a - b|; infinite where one of them is NaN or they are different infinities
  double maxRel = 0;    ///< largest |a - b| / |b| (b not 0), or with `ofLargest` |a - b| / max|b|
  std::string problem;  ///< where not ok: the first element that differs too much, or the types
};

/// Compares with what was expected (b). NaN equals NaN, infinities must agree, dtype and shape must match, other types than floats
/// must be equal.
Comparison compare(const Array& found, const Array& expected, const Tolerance&);

}  // namespace tektite
