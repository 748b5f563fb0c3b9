#pragma once
#include "fusion/explicit.h"

namespace tektite {

/// An axis of a product in one tile of its stage.
struct ProductAxis {
  int64_t size;  ///< at most
  bool fixed;    ///< the same in every tile
};

/// How a product is cut for the matrix unit: a tile of results for each step of the loops around, summed up by an instruction for each step
/// of its depth. Rows and depth have one axis that is cut, and short ones that lie whole in a tile. The cost model and lowering read the same.
struct ProductTile {
  bool each = false;  ///< a column has a left operand of its own (depthwise): an axis of both
  int row = -1, column = -1, deep = -1;  ///< the axes that are cut; -1: none
  std::vector<int> flatRows, flatDepth;  ///< whole in a tile, from the outside in
  std::vector<int> around, steps;        ///< loops: of tiles of results, and of a tile's depth
  int64_t rowBlock = 1, columnBlock = 1, deepBlock = 1;  ///< of the axes that are cut
  int64_t flatRowSize = 1, flatDepthSize = 1;
  /// So many loops of `around`, the inner ones, and the tiles of an axis that is cut leave their results side by side in the unit's memory,
  /// so that what follows takes all of them at once; -1: each tile alone.
  int together = -1;
  int64_t tiles = 1;  ///< so many, at most
  int64_t rows() const { return rowBlock * flatRowSize; }
  int64_t depth() const { return deepBlock * flatDepthSize; }
};
/// `resultBytes`: of the unit's memory, for one tile of results, or for several where they may be left side by side.
ProductTile tileProduct(const Stage&, const Product&, const std::vector<ProductAxis>&,
                        int64_t resultBytes, bool mayGather, const Target&);

/// Where a product's sums lie in the unit's memory.
struct SumsPlace {
  bool carried = false;  ///< they are added to what lies there from tile to tile
  bool others = false;   ///< results of other stages lie there, too
  bool goOut = false;    ///< the unit's output takes one tile while the next is summed up
};
/// Of that memory, what a tile of results may take.
int64_t roomForSums(const SumsPlace&, const Target&);

/// A target's path from the memory of left operands to that of results says that its unit has an instruction where each column has a left
/// operand of its own: that many of their bytes a second, `productsAtOnce` of a sum at a time. Null: it has none.
const MemoryPath* depthwisePath(const Target&);
/// And one from results to `scratch`, that its engine scales, rounds and bounds sums on their way there while the unit sums up others.
const MemoryPath* outputPath(const Target&);

/// Seconds of one instruction that sums up `depth` products for rows x columns results.
double productSeconds(const Target&, bool each, double rows, double columns, double depth,
                      int elementBytes);
/// Of one that takes so many bytes of results out.
double outputSeconds(const Target&, double bytes);

}  // namespace tektite
