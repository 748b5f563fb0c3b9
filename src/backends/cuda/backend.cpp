#include "backends/backend.h"

#include "backends/cuda/driver.h"
#include "backends/cuda/launcher.h"
#include "backends/cuda/nvcc.h"
#include "emit/c_source.h"

namespace tektite {
namespace {

void widen(KernelResources& to, const KernelResources& from) {
  to.registers = std::max(to.registers, from.registers);
  to.spillBytes = std::max(to.spillBytes, from.spillBytes);
  to.sharedBytes = std::max(to.sharedBytes, from.sharedBytes);
  to.barriers = std::max(to.barriers, from.barriers);
  for (const auto& [name, count] : from.instructions) to.instructions[name] += count;
}

void addEntries(const std::vector<Launch>& launches,
                std::vector<std::pair<std::string, int64_t>>& out) {
  for (const Launch& l : launches) {
    if (l.kind == Launch::Entry) out.emplace_back(l.entry, l.sharedBytes);
    addEntries(l.body, out);
  }
}

class CudaBackend : public Backend {
 public:
  CudaBackend() : Backend("cuda") {}
  Target target() const override { return findTarget("cuda"); }
  Supports supports(const KernelModule& module, const Kernel& kernel,
                    const Target&) const override {
    const CSupport answer = supportsC(module, kernel, cudaCpp());
    return {answer.yes, answer.why};
  }
  Artifact emit(const KernelModule& module, const Kernel& kernel, const Target& target,
                Numerics numerics) const override {
    return emitC(module, kernel, target, numerics, cudaCpp());
  }
  std::string write(const std::string& name, const Artifact& artifact, const Target& target,
                    const Write& to) const override {
    const std::string source = sourceOf({&artifact}), file = to(name + ".cu", source);
    const auto made = runNvcc(source, target.arch, artifact.options);
    if (!made) return file + "bin";  // what nvcc calls it
    to(name + ".ptx", made->ptx);
    return to(name + ".cubin", made->cubin);
  }
  bool writesPrograms() const override { return true; }
  void write(const LaunchList& list, const std::vector<WrittenKernel>& kernels,
             const Write& to) const override {
    if (const std::string why = whyNoLauncher(list, kernels); !why.empty()) {
      to("no_launcher.txt", why + '\n');
      return;
    }
    Launcher launcher(list, kernels);
    const std::string weights = to("weights.bin", launcher.weights());
    to("launcher.cpp", launcher.text(weights));
  }
  void findResources(const std::vector<Artifact*>& artifacts, const Target& target) const override {
    if (artifacts.empty()) return;
    const auto made =
        runNvcc(sourceOf({artifacts.begin(), artifacts.end()}), target.arch, artifacts[0]->options);
    if (!made) return;
    for (Artifact* a : artifacts) {
      std::vector<std::pair<std::string, int64_t>> entries;
      addEntries(a->launches, entries);
      KernelResources all;
      for (const auto& [entry, shared] : entries) {
        const auto at = made->resources.find(entry);
        if (at == made->resources.end()) continue;
        KernelResources one = at->second;
        one.sharedBytes += static_cast<int>(shared);
        widen(all, one);
      }
      a->resources = all;
    }
  }
  std::shared_ptr<Device> open(const Target& target) const override { return openCuda(target); }
};
const CudaBackend backend;

}  // namespace
}  // namespace tektite
