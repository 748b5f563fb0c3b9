#pragma once
#include <algorithm>

#include "fusion/region.h"

namespace tektite {

/// Elements of a span in all tiles of one axis, so many, clipped to its own axis, each rounded up to `unit`.
inline int64_t sumOver(const Span& s, int64_t step, int64_t tiles, int64_t extent, int64_t unit) {
  const auto rounded = [&](int64_t n) { return (n + unit - 1) / unit * unit; };
  // Most have all of it: those in a row, from the first that begins inside to the last that ends there.
  const int64_t room = extent - s.size - s.base;
  int64_t from = 0, until = 0;
  if (step > 0 && s.size >= 0 && room >= 0) {
    from = std::min(tiles, s.base >= 0 ? 0 : (step - 1 - s.base) / step);
    until = std::max(from, std::min(tiles, room / step + 1));
  }
  int64_t sum = (until - from) * rounded(s.size);
  const auto add = [&](int64_t t, int64_t end) {
    for (; t < end; t++) {
      const int64_t begin = s.base + step * t;
      sum += rounded(
          std::max<int64_t>(0, std::min(begin + s.size, extent) - std::max<int64_t>(begin, 0)));
    }
  };
  add(0, from);
  add(until, tiles);
  return sum;
}

}  // namespace tektite
