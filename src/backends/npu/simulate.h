#pragma once
#include <set>
#include <string>
#include <vector>

#include "backends/npu/counters.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

/// Of the first core: for Chrome's or Perfetto's trace view.
struct TraceEvent {
  std::string engine, what;
  double start, seconds;
};
std::string chromeTrace(const std::vector<TraceEvent>&, const Target&);

/// Walks a kernel for explicit memories without touching data: loops, copies, instructions and waits on a time line of engines. Tiles are
/// dealt to cores in contiguous runs. `weights` are the parameters that are constants. Shapes are static.
Simulated countKernel(const KernelModule&, const Kernel&, const Target&,
                      const std::set<std::string>& weights,
                      std::vector<TraceEvent>* trace = nullptr);

}  // namespace tektite
