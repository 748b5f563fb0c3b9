#include "runtime/team.h"

#include <algorithm>

#include "support/parallel.h"

namespace tektite {
namespace {

constexpr int kSpins =
    4000;  // about 100 us of polling: longer than the gap between two inferences in a row
constexpr int kBarrierYields = 64;  // then the thread we wait for probably isn't running at all

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

Team::Team(int threads)
    : threads_(std::max(threads, 1)), spins_(threads_ > hardwareThreads() ? 1 : kSpins) {
  for (int i = 1; i < threads_; ++i) others_.emplace_back([this, i] { serve(i); });
}

Team::~Team() {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& other : others_) other.join();
}

void Team::serve(int thread) {
  for (uint32_t seen = 0;; ++seen) {
    for (int spin = 0; spin < spins_ && epoch_.load(std::memory_order_acquire) == seen; ++spin)
      pause();
    while (epoch_.load(std::memory_order_acquire) == seen)
      epoch_.wait(seen, std::memory_order_acquire);
    if (stop_) return;
    work_(context_, thread);
    barrier();
  }
}

void Team::run(Work work, void* context) {
  if (threads_ == 1) return work(context, 0);
  work_ = work;
  context_ = context;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(context, 0);
  barrier();
}

void Team::barrier() {
  if (threads_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    phase_.notify_all();
    return;
  }
  for (int spin = 0; spin < spins_ && phase_.load(std::memory_order_acquire) == phase; ++spin)
    pause();
  for (int i = 0; i < kBarrierYields && phase_.load(std::memory_order_acquire) == phase; ++i)
    std::this_thread::yield();
  while (phase_.load(std::memory_order_acquire) == phase)
    phase_.wait(phase, std::memory_order_acquire);
}

}  // namespace tektite
