#pragma once
// Runs CUDA kernels on a CPU: the threads of a block are threads that meet at barriers, blocks come one after the other. For tests: right, not
// fast. Included before a kernel's text as emitC prints it in plainCpp().
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
static thread_local Index threadIdx;
static Index blockIdx, blockDim;

struct Team {
  std::barrier<> all;
  struct Warp {
    std::barrier<> lanes{32};
    uint32_t shared[32][8];
  };
  std::vector<std::unique_ptr<Warp>> warps;
  explicit Team(int threads) : all(threads) {
    for (int i = 0; i < (threads + 31) / 32; i++) warps.push_back(std::make_unique<Warp>());
  }
};
static Team* team;

inline void __syncthreads() { team->all.arrive_and_wait(); }
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline int atomicAdd(int* at, int by) { return __atomic_fetch_add(at, by, __ATOMIC_ACQ_REL); }

/// What each lane of the warp holds; until warp_done.
inline const uint32_t (*warp_share(const uint32_t* mine, int count))[8] {
  Team::Warp& w = *team->warps[threadIdx.x / 32];
  memcpy(w.shared[threadIdx.x % 32], mine, static_cast<size_t>(count) * 4);
  w.lanes.arrive_and_wait();
  return w.shared;
}
inline void warp_done() { team->warps[threadIdx.x / 32]->lanes.arrive_and_wait(); }

using std::ceil;
using std::fabs;
using std::floor;
using std::fma;
using std::max;
using std::min;
using std::rint;
using std::sqrt;
using std::trunc;

inline long long max(long long a, int b) { return a < b ? b : a; }
inline long long min(long long a, int b) { return b < a ? b : a; }

template <class F>
void launchOnCpu(int blocks, int threads, const F& kernel) {
  Team now(threads);
  team = &now;
  blockDim.x = static_cast<unsigned>(threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; t++)
    all.emplace_back([&, t] {
      threadIdx.x = static_cast<unsigned>(t);
      for (int b = 0; b < blocks; b++) {
        __syncthreads();
        if (t == 0) blockIdx.x = static_cast<unsigned>(b);
        __syncthreads();
        kernel();
      }
    });
  for (std::thread& t : all) t.join();
}
