#pragma once
#include <optional>

#include "backends/npu/simulate.h"
#include "runtime/program.h"

namespace tektite {

/// What the modelled machine does for a program, counted without running it; nothing where the target has no explicit memories. The
/// trace is of the whole launch list.
std::optional<Simulated> simulatedOf(const Program&, const Target&,
                                     std::vector<TraceEvent>* trace = nullptr);
/// The same of each step; empty where the target has no explicit memories.
std::vector<Simulated> simulatedSteps(const Program&, const Target&,
                                      std::vector<TraceEvent>* trace = nullptr);

/// Runs a kernel for explicit memories, given as text, in the kernel interpreter: tiles in shuffled order, engines as late as they may.
/// A broken rule (a race, an overrun, a missing wait) is a KernelFault. `buffers` and `bytes` of its parameters in order.
void interpretKernel(const std::string& text, void* const* buffers,
                     const std::vector<int64_t>& bytes);
/// Beyond it the values come from code for this machine's CPU, and the time line from the kernel alone.
bool isLongToInterpret(const Cost&);

}  // namespace tektite
