#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

/// A pure function kernel -> kernel, registered by name in its own file. The module is for the combines and instructions it declares.
struct KernelPass {
  std::string_view name, doc;
  Kernel (*run)(const Kernel&, const KernelModule&);
  KernelPass(std::string_view name, std::string_view doc,
             Kernel (*run)(const Kernel&, const KernelModule&));
};
std::vector<const KernelPass*> allKernelPasses();         ///< sorted by name
const KernelPass* findKernelPass(std::string_view name);  ///< null where there is none

/// The passes that every lowered kernel goes through, in their order.
const std::vector<std::string>& kernelPipeline();

/// Runs passes by name on every kernel of a module. UserError: an unknown name.
KernelModule runKernelPasses(
    const KernelModule& module, const std::vector<std::string>& names,
    const std::function<void(std::string_view pass, const KernelModule& after)>& observe = {});

}  // namespace tektite
