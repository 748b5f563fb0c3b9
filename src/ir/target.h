#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tektite {

/// A memory level or space of a machine.
struct Level {
  std::string name;  ///< reg, l1, l2, l3, shared, ub ... ; main is the last
  int64_t bytes =
      0;  ///< capacity of one core (or block, or thread for reg); of all, where shared; main: unlimited = 0
  double bytesPerSecond =
      0;  ///< one core's bandwidth; for shared levels see `sharedBytesPerSecond`
  double sharedBytesPerSecond = 0;  ///< of all cores together; 0: scales with cores
};

/// The numbers of a machine: all that fusion, scheduling and lowering may know of it. Presets, files and CPUID fill it.
struct Target {
  std::string name;  ///< "cpu:znver4", "gpu-class", "npu:ascend910b"
  std::string kind;  ///< "cpu", "gpu", "npu"
  int cores = 1;
  int vectorBytes = 32;  ///< widest vector that pays
  int vectorRegisters = 16;
  bool fma = true;
  bool maskedMoves = false;  ///< AVX-512: an `if` in a vector loop is a mask
  double hertz = 3e9;
  double fmaPerCycle = 2;    ///< vector FMAs a core issues each cycle at vectorBytes
  double slotsPerCycle = 2;  ///< vector arithmetic slots a cycle
  double loadsPerCycle = 2;
  int fmaLatency = 4;       ///< cycles
  int reorderWindow = 224;  ///< instructions
  double launchSeconds = 1e-7;
  double gridSyncSeconds = 1e-7;
  bool gridSync = true;
  std::vector<Level> levels;        ///< from reg outwards; the last is main
  std::vector<std::string> queues;  ///< of asynchronous operations
  int warp = 1;                     ///< threads of a warp
  // CPU code generation
  std::string triple, cpu, features;  ///< for LLVM; empty: not a CPU

  int lanes(int elementBytes) const { return vectorBytes / elementBytes; }
  const Level* level(const std::string& name) const;
  const Level& last() const { return levels[levels.size() - 2]; }  ///< the last on-chip level
  std::string toText() const;  ///< canonical, for cache keys and `tektite machine`
};

/// What the running machine is, from CPUID and the system: ISA, caches, cores.
Target hostTarget();
/// A preset ("gpu-class", "cpu:x86-64", "cpu:avx2", "cpu:avx512", "test:avx2", "test:sm_80", "test:npu" ...) or a TOML file's path.
/// UserError where there is none, naming those that there are.
Target findTarget(const std::string& nameOrFile);

}  // namespace tektite
