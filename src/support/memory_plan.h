#pragma once
#include <cstdint>
#include <vector>

namespace tektite {

/// A buffer that lives from step `first` to step `last` of a launch list, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};
struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< in one arena, aligned, as many as lifetimes
  int64_t bytes = 0;             ///< of the arena
};

constexpr int64_t kArenaAlign = 64;  ///< bytes: a cache line, and the widest vector

/// Offsets such that buffers that live at the same time don't overlap. Best fit, the oldest first or the largest first, and where that needs
/// more than the least, what stands highest before all others, some times: the best of these. Empty buffers take no place.
MemoryPlan planMemory(const std::vector<Lifetime>&, int64_t align = kArenaAlign);
/// The most bytes that are alive at once: no plan needs less.
int64_t leastMemory(const std::vector<Lifetime>&, int64_t align = kArenaAlign);

}  // namespace tektite
