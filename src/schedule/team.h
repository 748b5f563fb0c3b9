#pragma once
#include <string>
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// A contraction whose results lie in the threads' registers, and whose operands go through shared memory, a panel of the reduction at a time.
/// Rows are the axes that only one operand has, columns those that only the other has; each side is one number, dealt as such.
struct TeamProduct {
  Expr left, right;  ///< the factors
  std::vector<int> rows, columns,
      batch;  ///< space axes, outermost first; batch: of both, or of none
  int rowThreads = 0, columnThreads = 0;  ///< the team is their product; 0: not such a product
  int rowsEach = 1, columnsEach = 1;      ///< the register tile of a thread
  int depth = 1;                          ///< of a panel
  int64_t rowBlock() const { return int64_t{rowThreads} * rowsEach; }
  int64_t columnBlock() const { return int64_t{columnThreads} * columnsEach; }
};

/// How one stage's points are dealt over the threads of a team. Axes are indices into Stage::axes.
struct TeamStage {
  std::vector<int>
      dealt;  ///< space axes whose points go to the threads; the last one to consecutive threads
  std::vector<int> serial;  ///< the other space axes, in order: one thread walks them (scatters)
  std::vector<int> reduce;  ///< outermost first
  int vector = 1;           ///< elements of the last dealt axis side by side in one thread
  int group = 1;  ///< threads that share the reductions of a point, a power of two; 1: each its own
  int together =
      0;  ///< so many of the last reduce axes are dealt to the group as one; each thread walks the others
  TeamProduct product;
};

/// A panel is [depth][block], rows of it so much longer where that keeps stores out of each other's banks.
constexpr int64_t kPanelPadding = 4;
/// What the panels of a product take of shared memory.
int64_t panelBytes(const TeamProduct&);

/// Stages of all tile lists of a kernel, run by teams of one size.
struct TeamSchedule {
  int threads = 0;  ///< of a team; 0: a tile is one thread's (CPU)
  std::vector<std::vector<TeamStage>> lists;
};

/// From the target's numbers and the strides of what is touched. `threads`: the team's size, 0: as many as the stages can use.
TeamSchedule chooseTeam(const GroupPlan&, const Target&, int threads = 0);
std::string toText(const GroupPlan&, const TeamSchedule&);

}  // namespace tektite
