#pragma once
#include "backends/backend.h"
#include "lower/lower.h"
#include "runtime/compile.h"

namespace tektite {

/// A group's kernel, compiled: how its parameters are bound beside what Program keeps of it.
struct GroupKernel {
  KernelInfo info;
  GroupPlan plan;                      ///< prepared: as lowering saw it
  std::vector<std::string> arguments;  ///< LoweredKernel's, as are those below
  std::vector<int64_t> aligns;         ///< bytes, of each argument
  std::vector<PackedConstant> packed;
  std::vector<std::pair<std::string, std::string>> inPlace;
};

/// Schedules, lowers, emits and compiles the groups of a graph, on all cores. Kernels that are equal but for names compile once, and
/// what is in the cache on disk not at all. `code` keeps the functions alive. `device` (if any) loads them instead.
std::vector<GroupKernel> makeKernels(const Graph& graph, const std::vector<int>& groups,
                                     const CompileOptions&, std::shared_ptr<const void>& code,
                                     Device* device);

/// The nodes of the input model that a group's body computes, in order.
std::vector<std::string> originsOf(const Graph& body);

}  // namespace tektite
