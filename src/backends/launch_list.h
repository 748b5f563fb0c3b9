#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "emit/artifact.h"
#include "ir/graph.h"

namespace tektite {

/// Memory that kernels read and write. Arena: from `offset` in a session's arena. Input, Output: the caller's buffer `index`.
/// Constant: `data`, where the model has it. Packed: `data`, made at compile time, at `offset` of the
/// packed memory. Zeroed: like Arena, zero before the first run.
struct Slot {
  enum Kind : uint8_t { Arena, Input, Output, Constant, Packed, Zeroed } kind = Arena;
  int64_t bytes = 0;
  int64_t offset = 0;
  int index = 0;
  const void* data = nullptr;
  int64_t align = 1;  ///< bytes, that kernels assume
};

/// One entry of the launch list.
struct Step {
  enum Kind : uint8_t {
    Kernel,
    Copy,
    Body
  } kind = Kernel;  ///< Body: a group or a loop that the graph interpreter executes
  int kernel = -1;  ///< its number in the program
  std::vector<int>
      slots;  ///< a kernel's buffers in the order of KernelFunction; Copy: from, to; Body: operands, results
  bool barrier =
      true;  ///< wait for all threads before it: it touches what a step since the last barrier wrote, or the other way
  bool solo = false;  ///< thread 0 runs all of it
  int node = -1;      ///< of Program::graph; -1: a copy
};

/// What runs a model: the caller's buffers, memory, and kernels one after the other.
struct LaunchList {
  std::vector<std::string> inputNames, outputNames;
  std::vector<TensorType> inputs, outputs;
  std::vector<Slot> slots;
  std::vector<Step> steps;
  int64_t arenaBytes = 0, zeroedBytes = 0;
};

/// A kernel of a launch list, and the file that holds its code ("": none was written).
struct WrittenKernel {
  std::string name;
  const Artifact* artifact = nullptr;
  std::string file;
};

}  // namespace tektite
