#include "runtime/simulated.h"

#include <algorithm>

#include "ir/kernel_eval.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kMostInterpreted = 1e8;  // operations: some ten seconds

/// Parameters that hold constants.
std::set<std::string> weightsOf(const Program& program, const Step& step, const Kernel& kernel) {
  std::set<std::string> out;
  const Group* group = step.node < 0 ? nullptr : program.graph.nodes[step.node].as<Group>();
  if (!group || !group->plan) return out;
  for (const Param& p : kernel.params)
    for (const PlanBuffer& b : group->plan->buffers)
      if (b.name == p.buffer.name && b.kind == PlanBuffer::Constant) out.insert(b.name);
  return out;
}

}  // namespace

void interpretKernel(const std::string& text, void* const* buffers,
                     const std::vector<int64_t>& bytes) {
  KernelModule module = parseKernels(text, "kernel");
  Kernel& kernel = module.kernels[0];
  for (size_t i = 0; i < kernel.params.size(); ++i) {  // what may be one memory needn't be
    const auto sharing = std::count(buffers, buffers + kernel.params.size(), buffers[i]);
    if (sharing < 2) kernel.params[i].buffer.alias.clear();
  }
  std::map<std::string, EvalBuffer> memory;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const Buffer& b = kernel.params[i].buffer;
    memory[b.name] = {buffers[i], bytes[i] / tektite::bytes(b.type)};
  }
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  KernelEvaluator(module, kernel).run(memory, {}, options);
}

bool isLongToInterpret(const Cost& cost) {
  return std::max(cost.flops, cost.slots) > kMostInterpreted;
}

std::vector<Simulated> simulatedSteps(const Program& program, const Target& target,
                                      std::vector<TraceEvent>* trace) {
  std::vector<Simulated> out;
  if (!target.hasExplicitMemory()) return out;
  double cycles = 0;
  for (const Step& step : program.steps) {
    Simulated& one = out.emplace_back();
    std::vector<TraceEvent> events;
    if (step.kind == Step::Kernel) {
      const KernelInfo& info = program.kernels[step.kernel];
      const KernelModule module = parseKernels(info.text, info.name);
      const Kernel& kernel = module.kernels[0];
      one = countKernel(module, kernel, target, weightsOf(program, step, kernel),
                        trace ? &events : nullptr);
    } else {  // a copy of a result, or what the host does
      one.launches = 1;
      int64_t bytes = 0;
      for (int slot : step.slots) bytes += program.slots[slot].bytes;
      one.bytesWritten = program.slots[step.slots.back()].bytes;
      one.bytesRead = bytes - one.bytesWritten;
      const MemoryPath* path = target.path("main", target.scratch);
      one.cycles =
          (target.launchSeconds + static_cast<double>(bytes) / path->bytesPerSecond) * target.hertz;
    }
    for (TraceEvent& e : events) {
      e.start += cycles / target.hertz + target.launchSeconds;
      trace->push_back(std::move(e));
    }
    cycles += one.cycles;
  }
  return out;
}

std::optional<Simulated> simulatedOf(const Program& program, const Target& target,
                                     std::vector<TraceEvent>* trace) {
  if (!target.hasExplicitMemory()) return {};
  Simulated all;
  for (const Simulated& one : simulatedSteps(program, target, trace)) all.add(one);
  return all;
}

}  // namespace tektite
