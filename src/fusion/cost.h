#pragma once
#include <memory>

#include "fusion/region.h"
#include "ir/target.h"

namespace tektite {

/// What one point of a stage costs: issue slots, loads and stores, before and after its reductions.
struct StageWork {
  double slots = 0, loads = 0, stores = 0;  ///< at every point
  double outerSlots = 0, outerLoads = 0, outerStores = 0;
  double chain = 0;  ///< slots of the longest dependent chain at a point
  bool contraction = false;
  bool ofBytes = false;   ///< it multiplies 8-bit integers
  bool ofHalves = false;  ///< 16-bit floats, which matrix instructions take
  int vectorAxis = -1;    ///< the axis that most accesses have innermost
  int elementBytes = 4;
  int accumulators = 0;
  int registers = 0;  ///< vector registers that hold values at once
};
/// Of each stage; the set has their facts.
std::vector<StageWork> worksOf(const StageSet&, StageMemory&);

constexpr int64_t kPanelBytes =
    20 << 10;  ///< of a team's shared memory, for the operands of its products

/// Where scratch of a group's tile may lie at most: a near level, not shared with main memory.
const Level& scratchLevel(const Target&);

/// How the tiled axes are cut: a size each, the order of those with several tiles, and how many of these are the grid.
struct Tiling {
  std::vector<int64_t> tile;
  std::vector<int> order;
  int grid = 0;
  int sync = -1;  ///< the stage whose reduction the last grid axis tiles
  int sliding =
      -1;  ///< the last of the order, where what a tile shares with the one before it is kept
};

/// A tiling with all that follows from it.
struct Tiled {
  Tiling tiling;
  Regions regions;
  std::vector<int> depth;          ///< of each stage
  std::vector<std::string> space;  ///< of each buffer; "": not scratch
  std::vector<int> sharing;        ///< of each buffer: the one whose memory it takes over, or -1
  // With explicit memories
  std::vector<int> held;  ///< of each buffer: lives inside so many tile loops
  int64_t warm = 0;       ///< tiles of the sliding axis that run before the first
  int64_t overflow = 0;   ///< bytes that no memory has: scratch beyond scratchLevel's
  double outside = 0;  ///< bytes of a GPU's teams in main beyond those of the largest value there
  int64_t steps = 0;   ///< of the search that found it: stages looked at
  Cost cost;
};
/// The cost model: tilings of one group, one after the other.
class TilingCosts {
 public:
  TilingCosts(const GroupShape&, const StageSet&, const std::vector<StageWork>&, const Target&);
  ~TilingCosts();
  Tiled& of(const Tiling&);  ///< lives until the next call
  int64_t steps() const;     ///< stages looked at so far

 private:
  class Evaluation;
  std::unique_ptr<Evaluation> impl_;
};

class ExplicitEvaluation;
/// The same where tiles work on copies in explicit memories: bytes are what the copies move (fusion/explicit.cpp).
class ExplicitCosts {
 public:
  ExplicitCosts(const GroupShape&, const StageSet&, const std::vector<StageWork>&, const Target&);
  ~ExplicitCosts();
  void of(const Tiling&, Tiled& out);  ///< into the memory that it has

 private:
  std::unique_ptr<ExplicitEvaluation> evaluation_;
};

/// Seconds that one core, or all, need to move bytes of a tensor of `tensorBytes` to or from the level where it rests.
double moveSeconds(double bytes, double tensorBytes, double cores, const Target&);

}  // namespace tektite
