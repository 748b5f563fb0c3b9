#pragma once
#include "fusion/explicit.h"
#include "lower/lower.h"
#include "lower/nest.h"

namespace tektite {

/// A plan for explicit memories as a kernel: engines bring the parts of operands that a tile works on and take back its results; what
/// the next tile of a loop wants is brought while this one runs where both fit; products run on the matrix unit.
LoweredKernel lowerExplicit(const GroupPlan&, const Target&, const std::string& kernelName);

/// The loops of a product on the matrix unit: operands are fed tile by tile, two tiles each, results stay in the unit's memory until
/// the stores that follow. Declares the instruction in the module, and what main memory has to hold in `outside`.
Block lowerProduct(const Stage&, const Product&, const KernelBuffers&, const Ranges& tiles,
                   const std::vector<const TileAxis*>& grid, const Target&, KernelModule&,
                   Block& outside);

}  // namespace tektite
