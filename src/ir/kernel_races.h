#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "ir/kernel_code.h"

namespace tektite::code {

/// Who touched an element: ticks of a clock that counts iterations. Two readers are enough: if two that are concurrent with each other
/// are remembered, any later writer is concurrent with one of them where it is with any.
struct Shadow {
  uint32_t writer = 0, reader1 = 0, reader2 = 0;
  uint32_t inFlight = 0;  // how many pending operations touch it
};

/// The memory behind a buffer, or a class of them. What was written before `birth` is of an earlier life.
struct Storage {
  std::vector<Value> values;
  std::vector<Shadow> shadow;
  uint32_t birth = 0;
  bool initial = false;  // holds values from before the kernel
  bool registers = false, main = false;
  DType type = DType::F32;
  bool rounds = false;   // values are rounded to `type` when stored
  uint64_t address = 0;  // for the cache model
  int64_t inFlight = 0;
  int id = 0;
};

constexpr int kMaxRank = 12;

/// How a name sees a storage.
struct View {
  Storage* memory = nullptr;
  int64_t base = 0, laneStride = 0;
  int rank = 0;
  bool needsWrite = false;  // an `out`: nothing to read before the kernel has written it
  std::array<int64_t, kMaxRank> shape, strides;
};

/// A thread of a team; lane -1: a whole warp.
struct ThreadId {
  int warp = 0, lane = 0;
  friend bool operator==(const ThreadId&, const ThreadId&) = default;
};

/// Decides which of two accesses wait for each other. Iterations run one after the other here, in some order, whatever they may do at
/// large: an earlier access is concurrent with the running one if it stands in an earlier iteration of a loop that is still running in
/// parallel, in another tile of the list, or in another thread since the last `sync shared`.
class Races {
 public:
  uint32_t now() const { return clock_; }
  uint32_t tick();  ///< a new time, of the same iteration

  // Lists of tiles. A tile that goes on after `sync last` sees the other tiles of its group.
  void beginList();
  void beginTile(int64_t group);
  void goOnAlone() { alone_ = true; }

  // Parallel loops inside a tile
  void beginLoop() { loops_.push_back({tick(), 0}); }
  void beginIteration();
  void endLoop();

  // Teams
  void beginThread(ThreadId id);
  void endThread();
  void syncThreads() {
    epoch_ = tick();
    threads_.clear();
    update();
  }
  ThreadId thread() const { return thread_; }
  bool inThread() const { return inThread_; }

  bool concurrent(uint32_t then, bool registers) const {
    return then < innermost_ && then >= list_ && concurrentSlow(then, registers);
  }

 private:
  struct Frame {
    uint32_t start, iteration;
  };
  void update();
  bool concurrentSlow(uint32_t then, bool registers) const;

  uint32_t clock_ = 1, list_ = 1, tile_ = 1, innermost_ = 1;
  std::vector<std::pair<uint32_t, int64_t>> tiles_;  // start, group
  bool alone_ = false;
  std::vector<Frame> loops_;
  uint32_t epoch_ = 0, threadStart_ = 0;
  bool inThread_ = false;
  ThreadId thread_;
  std::vector<std::pair<uint32_t, ThreadId>> threads_;  // since the last sync: start, who
};

}  // namespace tektite::code
