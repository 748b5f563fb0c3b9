#pragma once
#include <map>
#include <memory>
#include <string>

#include "ir/cache_model.h"
#include "ir/kernel.h"
#include "ir/kernel_fault.h"

namespace tektite {

/// A parameter's memory, laid out as the kernel declares it (dtype, strides). `elements`: how many there are, -1: not known.
struct EvalBuffer {
  void* data = nullptr;
  int64_t elements = -1;
};

struct KernelEvalOptions {
  /// Of tiles, threads and iterations of parallel loops.
  enum Order : uint8_t { Forward, Reverse, Shuffled } order = Forward;
  uint64_t seed = 0;
  bool checks = true;  ///< K5, K11 and K12; K4 always
  bool roundEach =
      false;  ///< every operation rounds to its type, as a machine would; else floats are double until a parameter is stored
  CacheModel* cache = nullptr;  ///< counts bytes; cleared before and after unless `warm`
  bool warm = false;
  int warp = 32;  ///< threads of a warp, where only thread loops say how many there are
};

struct EvalCounters {
  int64_t launches = 0;  ///< 1 + grid syncs
  int64_t tiles = 0;
  int64_t flops = 0;     ///< float operations evaluated; fma counts two
  int64_t integers = 0;  ///< operations of indices and conditions, but for sums of variables
  int64_t reads = 0, writes = 0;            ///< elements outside of registers
  int64_t bytesRead = 0, bytesWritten = 0;  ///< with a cache model
};

/// The oracle for lowering: runs a kernel as docs/kernels.md says, slowly and in double precision. Independent iterations run in the
/// order asked for, asynchronous operations as late as they may. Races between them are found exactly, whatever the order: each element
/// remembers who wrote and read it. A broken rule is a KernelFault: K4, K5, K8, K9, K11 or K12.
class KernelEvaluator {
 public:
  KernelEvaluator(const KernelModule& module, const Kernel& kernel);  ///< resolves all names once
  ~KernelEvaluator();
  KernelEvaluator(KernelEvaluator&&) noexcept;
  /// Buffers by the parameters' names, dims by theirs. Parameters of one alias class have the same memory.
  EvalCounters run(const std::map<std::string, EvalBuffer>& buffers,
                   const std::map<std::string, int64_t>& dims,
                   const KernelEvalOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tektite
