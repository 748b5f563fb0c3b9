#pragma once
#include "emit/artifact.h"
#include "emit/c_language.h"
#include "ir/kernel.h"
#include "ir/numerics.h"
#include "ir/target.h"

namespace tektite {

/// A kernel in a language that looks like C: an entry for each list of tiles, which the host launches one after the other (`sync grid` and
/// what stands around grids are the host's, Artifact::launches). A team's threads are work-items, their number in the team that of their
/// warp and thread loops; where a tile has no such loop it is one work-item. Vector loops are written out, with one access where their
/// elements are side by side. Copies of queues are done at once where the language has no asynchronous ones. UserError: an instruction that
/// the language's list lacks.
struct CSupport {
  bool yes = true;
  std::string why = {};
};
CSupport supportsC(const KernelModule&, const Kernel&, const Language&);
Artifact emitC(const KernelModule&, const Kernel&, const Target&, Numerics, const Language&);

}  // namespace tektite
