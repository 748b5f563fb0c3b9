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
  int64_t align = 1;                ///< bytes, of every allocation and of what engines move
};

/// A way between two levels of a machine with explicit memories, and the engine (a queue) that moves along it.
struct MemoryPath {
  std::string from, to, engine;
  double bytesPerSecond = 0;  ///< of one core
  double startSeconds = 0;    ///< of each operation
  double halfBytes =
      0;             ///< an operation of so many bytes reaches half the rate: peak B / (half + B)
  int channels = 1;  ///< operations that start at once
  int productsAtOnce = 1;  ///< of a sum, on the unit's own path from left operands to results
};

/// Multiplies tiles from `left` [m, k] and `right` [k, n] and adds them up in `result` [m, n]. Cycles of an instruction:
/// start + ceil(m / rows) ceil(n / columns) ceil(k bytes / depthBytes), times `wide` for elements of four bytes.
struct MatrixUnit {
  std::string engine, left, right, result;  ///< the levels; no engine: no unit
  int rows = 1, columns = 1, depthBytes = 1;
  double hertz = 0;  ///< 0: the core's
  double startCycles = 0, wide = 1;
};

/// The numbers of a machine: all that fusion, scheduling and lowering may know of it. Presets, files and CPUID fill it.
struct Target {
  std::string name;  ///< "cpu:znver4", "gpu-class", "npu:ascend910b"
  std::string kind;  ///< "cpu", "gpu", "npu"
  std::string
      printer;  ///< of the backend that prints its kernels: "llvm", "opencl", "cuda" ...; "": plans only
  std::string arch;  ///< what the printer's compiler compiles for: "sm_90"; "": it finds out
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
  // Explicit memories: what a tile reads is brought to `scratch` by an engine, and what it makes goes back by one
  std::string scratch;   ///< the level where vector instructions work; "": caches
  std::string operands;  ///< the level that feeds the matrix unit
  std::string weights;   ///< a level of their own for constants; "": where other operands are
  double vectorStartCycles = 0;  ///< of each vector instruction
  double latencySeconds = 0;     ///< of main memory
  MatrixUnit matrix;
  std::vector<MemoryPath> paths;
  // CPU code generation
  std::string triple, cpu, features;  ///< for LLVM; empty: not a CPU

  int lanes(int elementBytes) const { return vectorBytes / elementBytes; }
  const Level* level(const std::string& name) const;
  bool hasExplicitMemory() const { return !scratch.empty(); }
  const MemoryPath* path(const std::string& from,
                         const std::string& to) const;             ///< null: there is none
  const Level& last() const { return levels[levels.size() - 2]; }  ///< the last on-chip level
  std::string toText() const;  ///< canonical, for cache keys and `tektite machine`
};

/// What the running machine is, from CPUID and the system: ISA, caches, cores.
Target hostTarget();
/// A preset ("gpu-class", "cpu:x86-64", "npu:ascend910b", "test:avx2" ...) or a TOML file's path.
/// UserError where there is none, naming those that there are.
Target findTarget(const std::string& nameOrFile);
/// The preset of an architecture, "cuda" and "sm_90". UserError where there is none.
Target withArch(const Target&, const std::string& arch);
/// Another value for one of its numbers: "launch_seconds=1e-6"; of a level "shared.bytes=65536"; "scratch_bytes=N" is the budget of the
/// level whose use is the program's affair (a GPU's shared, else the last on-chip one). UserError: names what there is.
void setNumber(Target&, const std::string& assignment);

}  // namespace tektite
