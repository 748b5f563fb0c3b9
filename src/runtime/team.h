#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "emit/artifact.h"

namespace tektite {

class Team;

/// One thread's place in a shared run: what lists of tiles it has met. All threads of a run meet the same lists and barriers in the
/// same order, each when it gets there. Without a team: the one thread there is.
class Hand : public TileDealer {
 public:
  Hand() : Hand(nullptr, 0, 0, 0) {}
  int thread() const { return thread_; }
  /// Work of thread 0; the others know that it is to be done before the next barrier lets them go.
  template <class Work>
  void once(Work work) {
    due_++;
    if (thread_ != 0) return;
    work();
    held_++;
    finish();
  }

 private:
  friend Team;
  Hand(Team* team, int thread, uint32_t list, uint64_t due);
  int64_t nextTiles(int64_t total, int64_t* first);
  void waitForTiles();
  bool take(int owner, uint32_t& at, uint32_t& count);
  void finish();  ///< counts what is held as done
  bool allDone() const;

  void divide(int64_t total);

  Team* team_;
  int thread_;
  bool open_ = false;               // in a list
  bool own_ = false;                // some of its units may be this thread's and not given away
  uint32_t list_;                   // lists met, over all runs of the team
  uint64_t due_;                    // units in them
  int64_t total_ = -1, tiles_ = 0;  // tiles of the list; of a unit: a run that is dealt as one
  uint32_t units_ = 0, ownFirst_ = 0, ownEnd_ = 0;  // of the list
  uint64_t held_ = 0;                               // units taken and not yet counted as done
};

/// A persistent team of threads; the caller of run() or share() is thread 0. Between runs the others spin for a while and then park, so a
/// run that follows closely costs no system call. One run at a time, but for who is late: it passes by tiles that are done.
///
/// Tiles are dealt while they are worked on: each thread begins with its own contiguous run of a list, a quarter of what is left of it at a
/// time, and then takes halves of what others have left. A barrier waits for tiles, not for threads: who isn't there has missed
/// nothing but the work, so slow cores get less of it and a thread that the system has put aside holds up one tile at most.
class Team {
 public:
  using Work = void (*)(void* context, int thread);
  using Share = void (*)(void* context, Hand& hand);

  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;

  int threads() const { return threads_; }
  /// Every thread calls work(context, a number of its own), all at once; returns when all have. `work` must not throw.
  void run(Work work, void* context);
  /// Thread 0 and those others that come in time call work(context, hand); returns when all tiles are done. Others may still be on their way
  /// out: `context` and what `work` reads beside tiles stay as they are until settle() returns.
  void share(Share work, void* context);
  /// Returns when no other thread is in a run.
  void settle();

 private:
  friend Hand;
  static constexpr size_t kApart = 128;  // bytes: caches fetch lines in pairs
  /// What thread 0 writes, in one line: what the others wait for brings what they need.
  struct Call {
    alignas(kApart) std::atomic<uint32_t> run{1};  // even, another each time; odd: nobody comes in
    std::atomic<uint32_t> list{0};                 // where it begins to count
    std::atomic<uint64_t> due{0};
    std::atomic<Share> work{nullptr};
    std::atomic<void*> context{nullptr};
  };
  /// What a thread writes: a line that only those touch who want to take its units, and one that all look at.
  struct Seat {
    alignas(kApart) std::atomic<uint64_t> word{
        0};  // list, first and end of its units that nobody has
    alignas(kApart) std::atomic<uint64_t> done{0};  // units that it did, over all runs
    std::atomic<uint32_t> run{0};                   // that it is in; 0: none
  };
  void serve(int thread);

  int threads_;
  int spins_;  // polls before a waiting thread gives up its core
  std::vector<std::thread> others_;
  std::vector<Seat> seats_;
  uint32_t list_ = 0;  // where the next run begins to count
  uint64_t due_ = 0;
  std::atomic<bool> stop_{false};
  Call call_;
};

}  // namespace tektite
