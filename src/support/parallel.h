#pragma once
#include <cstddef>
#include <functional>

namespace tektite {

/// Calls work(i) for every i in [0, count) on up to `threads` threads, this one among them; in no particular order. The first
/// exception is thrown here once all have stopped.
void parallelFor(size_t count, int threads, const std::function<void(size_t)>& work);
int hardwareThreads();  ///< of this process: what the scheduler lets it use

}  // namespace tektite
