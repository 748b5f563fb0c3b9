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

  Team* team_;
  int thread_;
  bool open_ = false;   // in a list
  uint32_t list_;       // lists met, over all runs of the team
  uint64_t due_;        // units in them
  uint32_t units_ = 0;  // of this list: runs of `tiles_` tiles, which are dealt as one
  int64_t tiles_ = 0;
  uint64_t held_ = 0;  // units taken and not yet counted as done
};

/// A persistent team of threads; the caller of run() or share() is thread 0. Between runs the others spin for a while and then park, so a
/// run that follows closely costs no system call. One run at a time.
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
  /// Every thread calls work(context, its number); returns when all have. `work` must not throw.
  void run(Work work, void* context);
  /// Thread 0 and those others that come in time call work(context, hand); returns when all tiles are done and all calls have ended.
  void share(Share work, void* context);

 private:
  friend Hand;
  static constexpr size_t kApart = 128;  // bytes: caches fetch lines in pairs
  struct Seat {                          // of a thread
    alignas(kApart) std::atomic<uint64_t> word{
        0};  // list, first and end of its units that nobody has
    alignas(kApart) std::atomic<uint64_t> done{
        0};  // units that it did, over all runs; nobody else writes
  };
  void serve(int thread);
  void open();
  void close();

  int threads_;
  int spins_;  // polls before a waiting thread gives up its core
  std::vector<std::thread> others_;
  std::vector<Seat> seats_;
  Work work_ = nullptr;
  Share share_ = nullptr;
  void* context_ = nullptr;
  uint32_t list_ = 0;  // where the next run begins to count
  uint64_t due_ = 0;
  uint64_t runs_ = 0;
  std::atomic<bool> stop_{false};
  alignas(kApart) std::atomic<uint32_t> epoch_{0};  // counts runs
  alignas(kApart) std::atomic<int> inside_;         // others in the run; below 0: nobody comes in
  std::atomic<int> came_{0};
};

}  // namespace tektite
