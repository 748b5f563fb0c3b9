#pragma once
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

/// A kernel of several lists of tiles, loops around them and waits between, where memories are explicit. On one core it becomes one tile:
/// what the lists pass on through buffers of the kernel's own stays in the scratchpad where it fits, one after the other in the same place.
/// On any number of cores: what a loop brings again each time, and nobody changes, is brought once before it (weights of a recurrence).
void keepOnCore(KernelModule&, const Target&);

/// Bytes of a space that a block holds at most; sizes that aren't constant count as nothing.
int64_t peakOf(const Block&, const std::string& space);

}  // namespace tektite
