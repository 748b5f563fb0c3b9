// What all tiles of an axis have of a span, counted tile by tile.
#include "fusion/span_sum.h"

#include <gtest/gtest.h>

namespace tektite {
namespace {

TEST(SpanSum, IsThatOfAllTiles) {
  for (int64_t base = -5; base <= 9; base++)
    for (int64_t size = 0; size <= 6; size++)
      for (int64_t step = -2; step <= 4; step++)
        for (int64_t tiles = 1; tiles <= 6; tiles++)
          for (const int64_t extent : {1, 7, 12})
            for (const int64_t unit : {1, 4}) {
              int64_t want = 0;
              for (int64_t t = 0; t < tiles; t++) {
                int64_t inside = 0;
                for (int64_t i = 0; i < size; i++) {
                  const int64_t at = base + step * t + i;
                  inside += at >= 0 && at < extent;
                }
                while (inside % unit) inside++;
                want += inside;
              }
              Span s = wholeSpan(size);
              s.base = base;
              ASSERT_EQ(sumOver(s, step, tiles, extent, unit), want)
                  << base << " " << size << " " << step << " " << tiles << " " << extent;
            }
}

}  // namespace
}  // namespace tektite
