#pragma once
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "ir/numerics.h"

namespace tektite {

/// One factor of a product: rows or columns of the results.
struct TeamOperand {
  Expr value;
  std::vector<int>
      axes;  ///< space axes that the other factor doesn't have, outermost first: one number, dealt as such
  int threads = 0;          ///< along that number
  int each = 1;             ///< of it that a thread holds
  bool alongDepth = false;  ///< neighbours in memory are neighbours in the reduction
  int copied = 0;  ///< elements that an asynchronous copy brings at once; 0: threads load and store
  bool blockFirst = false;  ///< its panel is [block][depth], else [depth][block]
  int64_t width =
      0;  ///< of a row of the panel, with what keeps neighbours out of each other's banks
  int64_t block() const { return int64_t{threads} * each; }
};

/// An instruction of a warp that multiplies tiles of one type and adds them up in f32, and those that read its operands.
struct MatrixProduct {
  const char *name, *loadRows, *loadColumns;
  DType operand;
  int depth;
  /// Elements that keep rows of a panel out of each other's banks.
  int padding() const { return 16 / bytes(operand); }
};
constexpr int kMatrixRows = 16, kMatrixColumns = 8, kMatrixPadding = 8;
/// f32 operands lose 13 of their 23 digits there: in `fast` only.
inline const MatrixProduct kMatrixProducts[] = {
    {"mma.m16n8k16", "mma.load_a", "mma.load_b", DType::F16, 16},
    {"mma.bf16.m16n8k16", "mma.bf16.load_a", "mma.bf16.load_b", DType::BF16, 16},
    {"mma.tf32.m16n8k8", "mma.tf32.load_a", "mma.tf32.load_b", DType::F32, 8}};

/// A contraction whose results lie in the threads' registers, and whose operands go through shared memory, a panel of the reduction at a time:
/// [depth][block]. While one panel is multiplied the next is on its way.
struct TeamProduct {
  TeamOperand rows, columns;
  std::vector<int> batch;  ///< space axes of both, or of none
  int depth = 1;           ///< of a panel
  const MatrixProduct* matrix =
      nullptr;  ///< warps multiply fragments by it: an operand's threads are warps then
  bool on() const { return rows.threads > 0; }
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
  bool shuffles = false;  ///< lanes of a warp join their results by instructions
  TeamProduct product;
};

inline const char* const kCopyQueue = "cp";  ///< of asynchronous copies into shared memory
/// How many panels a product walks, and what they take of shared memory: two at a time.
int64_t panelsOf(const TeamStage&, const Stage&);
int64_t panelBytes(const TeamStage&, const Stage&);

/// Stages of all tile lists of a kernel, run by teams of one size.
struct TeamSchedule {
  int threads = 0;  ///< of a team; 0: a tile is one thread's (CPU)
  std::vector<std::vector<TeamStage>> lists;
};

/// From the target's numbers and the strides of what is touched. `threads`: the team's size, 0: as many as the stages can use.
TeamSchedule chooseTeam(const GroupPlan&, const Target&, int threads = 0,
                        Numerics numerics = Numerics::Ordered);
std::string toText(const GroupPlan&, const TeamSchedule&);

}  // namespace tektite
