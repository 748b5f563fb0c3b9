#pragma once
#include <optional>
#include <vector>

#include "ir/target.h"
#include "schedule/slide.h"

namespace tektite {

constexpr int64_t kSetBytes = 4096;  ///< lines that far apart share a set of L1
constexpr double kLineBytes = 64;

struct TileShape {
  int vectors, unroll;
  double score;
};

/// Elements from the first to the last that a tile reads along a dimension: (vectors' elements - 1) * lanes + (rows - 1) * rows + rest.
struct TileSpan {
  int64_t lanes, rows, rest;
};

/// A load of a multiplication: does it differ along the lanes, from row to row? Do its vectors begin anywhere in a line?
struct TileLoad {
  bool alongLanes, alongRows, askew;
  int64_t elementBytes;
  std::vector<TileSpan> spans;  ///< of what each tile brings from L2 again, the lanes' last

  double lines(int64_t elements, int64_t rows) const;  ///< that a tile reads
};

/// What a register tile is chosen for.
struct TileProblem {
  int64_t vectorExtent, smallestVector;  ///< along the lanes: of most tiles, of the last
  int64_t
      align;  ///< panels must not straddle tiles: the tile's extent along the lanes, 0 where it isn't tiled
  int64_t unrollExtent, smallestUnroll;
  int lanes;
  bool panels, direct;          ///< operands along the lanes that are packed, that aren't
  bool square;                  ///< 8 rows, or as many as lanes: to be transposed
  bool exact;                   ///< blocks of rows may not overlap
  std::vector<TileLoad> loads;  ///< of a multiplication
  int64_t
      rowsApart;  ///< bytes from row to row of the operand that is broadcast, at most kSetBytes; 0: none
  int64_t resultsApart;        ///< the same of the results
  double depth;                ///< multiplications for each
  double column;               ///< bytes that the whole reduction reads along one lane
  bool farRows;                ///< what is broadcast comes from beyond L2 for each panel again
  std::optional<Slide> slide;  ///< taps that are written out
};

/// The register tile: most multiplications in a time, within the registers, with little waste at the edges. Bound by loads, by latency, by rows that
/// push each other out of L1, by panels that L1 doesn't hold and rows that L2 doesn't.
TileShape registerTile(const TileProblem&, const Target&);

}  // namespace tektite
