#pragma once
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "schedule/slide.h"
#include "schedule/team.h"

namespace tektite {

/// How one stage's nest is laid out. Axes are indices into Stage::axes; -1: none.
struct StageSchedule {
  int vectorAxis = -1;  ///< lanes run over this axis (space or reduce)
  int lanes = 1;
  int vectors = 1;  ///< vectors side by side along vectorAxis in one register tile
  bool apart =
      false;  ///< the vectors of a reduction walk as many parts of the axis: more streams for the prefetcher
  int unrollAxis = -1;  ///< the register tile's other axis (a space axis)
  int unroll = 1;
  int64_t round =
      1;  ///< steps of the innermost reduce loop that are written out in it; they divide its extent
  std::optional<Slide> slide;  ///< along the rows: its taps are written out with them
  std::vector<int> order;      ///< every axis once, outermost first: space axes, then reduce axes
  std::vector<std::string>
      packed;  ///< buffers whose loads go through panels [vectorAxis / W][reduce axes][W], W = lanes * vectors
  bool stream = false;  ///< stores of outputs past the caches
  bool across =
      false;  ///< results are computed with lanes along vectorAxis and stored with lanes along unrollAxis:
              ///< blocks of `lanes` columns and `unroll` rows are transposed in registers
  int dotAxis = -1;  ///< a reduce axis whose neighbours, `group` at a time, a dot instruction takes
  int group = 1;
  std::string
      dotRow;  ///< its operand that is the same for all lanes; in `packed` where it goes through rows of its own
  std::string
      fetched;  ///< a constant in `packed`: while one of its panels is used, the next comes into the near cache
  struct Ahead {
    Expr element;  ///< a load at the stage's point
    std::string tile;
    std::string level;  ///< no nearer than that; "": the nearest
  };
  std::vector<Ahead>
      ahead;  ///< what the tile after this one reads at the point's place is prefetched
  int64_t panel() const { return int64_t{lanes} * vectors; }
};

struct Schedule {
  std::vector<std::vector<StageSchedule>> lists;  ///< for each tile list, for each stage
  TeamSchedule team = {};                         ///< how tiles are run by teams, where they are
};

/// The default schedule from the target's numbers: of GPUs that of teams, `threads` each if not 0. `plan` must be what lowering sees
/// (`prepare` in lower/lower.h).
Schedule chooseSchedule(const GroupPlan& plan, const Target&, int threads = 0,
                        Numerics numerics = Numerics::Ordered);
StageSchedule chooseStage(const GroupPlan&, const TileList&, const Stage&, const Target&);
/// No vectors, no tiles: right and slow.
Schedule naiveSchedule(const GroupPlan& plan);
std::string toText(const GroupPlan&, const Schedule&);

}  // namespace tektite
