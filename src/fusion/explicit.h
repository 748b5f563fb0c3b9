#pragma once
#include <optional>

#include "fusion/stages.h"
#include "ir/target.h"

namespace tektite {

/// What tiles do where memories are explicit; the cost model and lowering read the same.

/// A stage that only moves: one store of a load, or of a load where a guard holds and else of a number. From a buffer that isn't scratch
/// into one that is, or is a tile's copy, an engine brings it. What data chooses is fetched element by element.
struct MoveStage {
  Expr load;
  Expr guard;  ///< null: always
  Expr fill;
};
std::optional<MoveStage> moveOf(const Stage&);

/// A contraction that the matrix unit takes: the two operands are loads, converted or not, and every axis belongs to some side.
struct Product {
  Expr left, right;  ///< loads
  std::vector<int> batch, rows, columns,
      depth;  ///< axes: of both, of the left, of the right, summed over
};
std::optional<Product> productOf(const Stage&, const Target&);

/// The scratch to which a product only adds, tile by tile of its sum, so that it may lie in the matrix unit's own memory: rows and columns
/// are its last axes. Empty: none.
std::string addsTo(const Stage&, const Product&);

/// Does a product store its sums as they are, but for their type and bounds? The matrix unit's engine does that on the way out.
bool storesItself(const Stage&);

/// Is what follows the sums no more than scaling, shifting, rounding and bounding them, by numbers of each column or of all? The matrix
/// unit's output does that.
bool scalesSums(const Stage&, const Product&, const Target&);
/// Of the scratchpad, where cube and vector cores have no other memory in common than main: what a tile of results takes.
constexpr int64_t kExchangeShare = 8;

/// Have stores an engine other than loads, so that a tile's results may leave beside what the next tile does?
bool storesBeside(const Target&);

/// A buffer of a block lives from one statement of it to another, both included.
struct Life {
  int first, last;
};
/// Made longer where two overlap without one lying in the other: then each is a block of its own in the kernel's text.
void nestLives(std::vector<Life>&);

/// Scratch whose readers all make the same narrower value of each element (a requantised sum) holds that value instead.
void narrowScratch(StageSet&);

/// Values that only a pad reads are stored into the padded value, and the pad stores its border alone.
void foldPads(StageSet&);

}  // namespace tektite
