#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tektite {

/// A persistent team of threads; the caller of run() is thread 0. Between runs the others spin for a while and then park, so a
/// run that follows closely costs no system call. One run at a time.
class Team {
 public:
  using Work = void (*)(void* context, int thread);

  explicit Team(int threads);
  ~Team();
  Team(const Team&) = delete;

  int threads() const { return threads_; }
  /// Every thread calls work(context, its number); returns when all have. `work` must not throw.
  void run(Work work, void* context);
  /// Inside a run: returns once every thread of the team has called it.
  void barrier();
  /// The same for a KernelFunction's `barrier(team)`.
  static void barrierOf(void* team) { static_cast<Team*>(team)->barrier(); }

 private:
  void serve(int thread);

  int threads_;
  int spins_;  // polls before a waiting thread gives up its core
  std::vector<std::thread> others_;
  Work work_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // counts runs
  alignas(64) std::atomic<int> arrived_{0};     // at the barrier
  alignas(64) std::atomic<uint32_t> phase_{0};  // counts barriers
};

}  // namespace tektite
