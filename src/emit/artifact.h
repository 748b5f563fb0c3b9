#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/expr.h"

namespace tektite {

/// What running a compiled kernel needs beside its parameters' buffers.
struct KernelNeeds {
  int64_t scratchBytes =
      0;  ///< of each CPU thread, 64-byte aligned: the l1 and l2 allocations of a tile
  std::vector<int64_t>
      mainAllocs;  ///< bytes of each `alloc @main` outside the grids, in text order
  int64_t counters =
      0;  ///< int32 counters for `sync last`, zero before the first launch; the kernel leaves them zero
  int64_t tiles = 0;  ///< launch extent where it is a constant; -1: depends on dims
};

/// Who gives the tiles of a kernel to the threads that run it, as seen by one of them.
struct TileDealer {
  /// Tiles of a list of `total` for this thread to do now: as many as answered, from *first on. 0: all are given away; the next call
  /// is of the next list. Null: every list is this thread's alone.
  int64_t (*deal)(TileDealer*, int64_t total, int64_t* first);
  void (*barrier)(TileDealer*);  ///< returns once the tiles of all lists so far are done
};

/// buffers: the parameters in order, then the main allocations, then the counters (if any). dims: the kernel's dims in order.
/// Every thread calls it with its own scratch and dealer, which deals each list and is waited for at each `sync grid`.
using KernelFunction = void (*)(void* const* buffers, const int64_t* dims, void* scratch,
                                TileDealer* dealer);

/// What a device's host does to run a kernel once, in order. `count` and `variable` are of the kernel's dims and the loops around.
struct Launch {
  enum Kind : uint8_t {
    Entry,  ///< launches `entry` with `count` tiles
    Loop,   ///< `body` for each value of `variable` below `count`
    When    ///< `body` where `count`, a bool, is true
  } kind = Entry;
  std::string
      entry;  ///< takes the buffers as KernelFunction does, then the dims and `outer`, each 64-bit
  std::vector<std::string> outer;  ///< the loops' variables around it
  Expr count;
  int threads = 1;  ///< of a tile's team; 1: tiles are work-items, `kTileGroup` side by side
  std::string variable;
  std::vector<Launch> body;
  int64_t sharedBytes = 0;  ///< of a team, beside what it declares
};
constexpr int kTileGroup = 64;  ///< work-items of a group where each is a tile of its own

/// What a device's compiler says of a kernel: the most of its entries.
struct KernelResources {
  int registers = 0, spillBytes = 0, sharedBytes = 0, barriers = 0;
  std::map<std::string, int> instructions =
      {};  ///< how often its code names each, all entries; empty: nobody knows
};

/// A kernel as a backend's text.
struct Artifact {
  std::string symbol;
  std::string text;  ///< LLVM IR, CUDA C++, OpenCL C, assembly
  KernelNeeds needs;
  std::vector<std::string> helpers =
      {};  ///< declarations before the text, in order; kernels in one file share those that are equal
  std::vector<Launch> launches = {};  ///< of a device; none: one call of a KernelFunction
  std::string options = {};           ///< for the device's compiler
  std::optional<KernelResources> resources = {};
  std::vector<std::string> dims = {};  ///< their names
};

/// One source file of several kernels.
std::string sourceOf(const std::vector<const Artifact*>&);

}  // namespace tektite
