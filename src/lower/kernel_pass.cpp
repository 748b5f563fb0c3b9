#include "lower/kernel_pass.h"

#include <algorithm>

#include "support/check.h"

namespace tektite {
namespace {

std::vector<const KernelPass*>& registry() {
  static std::vector<const KernelPass*> passes;
  return passes;
}

}  // namespace

KernelPass::KernelPass(std::string_view name, std::string_view doc,
                       Kernel (*run)(const Kernel&, const KernelModule&))
    : name(name), doc(doc), run(run) {
  registry().push_back(this);
}

std::vector<const KernelPass*> allKernelPasses() {
  std::vector<const KernelPass*> out = registry();
  std::sort(out.begin(), out.end(),
            [](const KernelPass* a, const KernelPass* b) { return a->name < b->name; });
  return out;
}

const KernelPass* findKernelPass(std::string_view name) {
  for (const KernelPass* p : registry())
    if (p->name == name) return p;
  return nullptr;
}

const std::vector<std::string>& kernelPipeline() {
  static const std::vector<std::string> names = {
      "simplify-kernel",  // what it decides need not be hoisted
      "split-guards", "hoist"};
  return names;
}

KernelModule runKernelPasses(
    const KernelModule& module, const std::vector<std::string>& names,
    const std::function<void(std::string_view, const KernelModule&)>& observe) {
  KernelModule out = module;
  for (const std::string& name : names) {
    const KernelPass* pass = findKernelPass(name);
    if (!pass) userError("kernel pass '{}': no such pass", name);
    for (Kernel& k : out.kernels) k = pass->run(k, out);
    if (observe) observe(name, out);
  }
  return out;
}

}  // namespace tektite
