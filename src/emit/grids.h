#pragma once
#include <functional>

#include "emit/artifact.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

/// A list of tiles: nested parallel loops, or none for what one thread does alone.
struct Grid {
  std::vector<const For*> loops;
  Block body;
  std::string comment;
  Expr tiles() const;  ///< how many, over dims and the loops around
};
/// The grid of an outermost parallel loop, with the loops that are each the only statement of the one around it.
Grid gridOf(const For& outermost);
/// Is there a grid or a `sync grid` in it?
bool hasGrid(const Block&);
/// A block in its order: grids that stand together, with what one thread does alone as grids without loops, and each statement that holds
/// grids or is a `sync grid`.
void forEachRun(const Block&, const std::function<void(const std::vector<Grid>&)>& together,
                const std::function<void(const Stmt&)>& around);
/// The `sync last` directly in a grid's body; null where there is none.
const Sync* lastIn(const Block& body);
/// Each `alloc @main`, in text order.
std::vector<const Buffer*> mainAllocsOf(const Block&);
/// Threads of the team that runs its tiles; 0: there are no warp or thread loops.
int teamOf(const Block&, const Target&);
/// What a kernel needs, without its code.
KernelNeeds needsOf(const Kernel&);

}  // namespace tektite
