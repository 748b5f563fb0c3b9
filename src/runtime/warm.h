#pragma once
#include "runtime/program.h"

namespace tektite {

/// Bytes that main memory gives in a run where the last on-chip level, of so many bytes, keeps what one launch leaves for the next: lines,
/// least recently used out first, cold at the start. Each kernel is taken to touch what it reads once, then what it writes; what its plan
/// reads beyond that, since it doesn't stay, it reads here too.
int64_t bytesReadWarm(const Program&, int64_t cacheBytes);

}  // namespace tektite
