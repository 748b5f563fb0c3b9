#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tektite {

/// What running a compiled CPU kernel needs beside its parameters' buffers.
struct KernelNeeds {
  int64_t scratchBytes =
      0;  ///< of each thread, 64-byte aligned: the l1 and l2 allocations of a tile
  std::vector<int64_t>
      mainAllocs;  ///< bytes of each `alloc @main` outside the grids, in text order
  int64_t counters =
      0;  ///< int32 counters for `sync last`, zero before the first launch; the kernel leaves them zero
  int64_t tiles = 0;  ///< launch extent where it is a constant; -1: depends on dims
};

/// buffers: the parameters in order, then the main allocations, then the counters (if any). dims: the kernel's dims in order.
/// Every thread of the team calls it with its own `thread` of `threads` and its own scratch; tiles are dealt in contiguous runs.
/// barrier(team) is called at each `sync grid`.
using KernelFunction = void (*)(void* const* buffers, const int64_t* dims, void* scratch,
                                int64_t thread, int64_t threads, void (*barrier)(void*),
                                void* team);

/// A kernel as a backend's text.
struct Artifact {
  std::string symbol;
  std::string text;  ///< LLVM IR, CUDA C++, OpenCL C, assembly
  KernelNeeds needs;
};

}  // namespace tektite
