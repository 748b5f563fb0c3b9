#include "backends/backend.h"

#include "backends/npu/hivm.h"

namespace tektite {
namespace {

/// Machines with explicit memories. The kernel language is their assembly; what the simulator counts of it stands in reports. Kernels
/// for Ascend's memories are also written as HIVM. A vendor's own backend takes its place where a target's `printer` names it.
class NpuBackend : public Backend {
 public:
  NpuBackend() : Backend("npu") {}
  Target target() const override { return findTarget("npu:ascend910b"); }
  Supports supports(const KernelModule&, const Kernel&, const Target& target) const override {
    if (target.hasExplicitMemory()) return {};
    return {false, "explicit memories"};
  }
  Artifact emit(const KernelModule& module, const Kernel& kernel, const Target&,
                Numerics) const override {
    return {kernel.name, toText(module), {.tiles = 1}};
  }
  std::string write(const std::string& name, const Artifact& artifact, const Target& target,
                    const Write& to) const override {
    const std::string file = to(name + ".npu", artifact.text);
    const KernelModule module = parseKernels(artifact.text, name);
    if (hivmSupports(module, module.kernels[0], target).yes)
      to(name + ".mlir", hivmText(module, module.kernels[0], target));
    return file;
  }
  std::shared_ptr<Device> open(const Target&) const override { return nullptr; }
};
const NpuBackend backend;

}  // namespace
}  // namespace tektite
