#pragma once
#include <string>

#include "backends/backend.h"

namespace tektite {

/// A kernel as HIVM, the MLIR dialect of Ascend's compiler: copies are `load`, `store` and `fixpipe`, products `mmadL1`, innermost loops
/// vector instructions where there are some, else scalar code. Waits of a core for its engines are left to
/// its own pass (-hivm-inject-sync), addresses to -hivm-plan-memory; where the last tile goes on alone, all blocks wait for each other
/// (`sync_block`), and one goes on. Needs the memories of npu:ascend910b.
std::string hivmText(const KernelModule&, const Kernel&, const Target&);
Supports hivmSupports(const KernelModule&, const Kernel&, const Target&);

}  // namespace tektite
