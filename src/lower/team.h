#pragma once
#include "lower/lower.h"
#include "lower/nest.h"
#include "schedule/team.h"

namespace tektite {

/// One stage of a tile that a team runs: thread nests, and the shared buffers through which threads join their results. What lies between
/// them waits for nothing yet (`placeSyncs`).
Block lowerTeamStage(const Stage&, const TeamStage&, int threads, const KernelBuffers&,
                     const Ranges& tiles);

/// The same of a stage with a TeamSchedule product.
Block lowerTeamProduct(const Stage&, const TeamStage&, int threads, const KernelBuffers&,
                       const Ranges& tiles);

/// The same by instructions that multiply fragments.
Block lowerTeamMatrix(const Stage&, const TeamStage&, int threads, const KernelBuffers&,
                      const Ranges& tiles);

/// The grid of a tile list. Scratch lies in shared memory as far as it has room, what is left in main, a part for each tile: its
/// allocations come before the grid.
Block lowerTeamList(const TileList&, const std::vector<TeamStage>&, int threads,
                    const KernelBuffers&, const std::vector<const PlanBuffer*>& scratch,
                    const Target&);

/// Puts `sync shared` between the thread nests of a tile: where one touches what another thread wrote, or overwrites what another may
/// still read. Nests that touch a buffer by one and the same index, thread by thread, don't wait for each other.
Block placeSyncs(Block tile);

/// Is the buffer what all tiles write their partial results to? Any other scratch is a tile's own.
bool sharedByTiles(const PlanBuffer&);
/// A scratch buffer is dense, in its own order.
Buffer allocate(const PlanBuffer&, const std::string& space);

}  // namespace tektite
