#pragma once
#include <vector>

#include "ir/kernel.h"
#include "ir/kernel_fault.h"
#include "ir/target.h"

namespace tektite {

struct KernelVerifyOptions {
  const Target* target =
      nullptr;         ///< for K6, queues and team sizes; null: not checked against a machine
  bool bounds = true;  ///< K4 and the tiles of K8, by proof
};

/// The static part of the rules of docs/kernels.md, over all kernels and instructions of a module; everything found, in text order.
/// K5, K11 and K12 only where it is plain to see: the interpreter checks them on real runs.
std::vector<KernelFault> faultsOf(const KernelModule& module,
                                  const KernelVerifyOptions& options = {});
/// Throws the first.
void verifyKernels(const KernelModule& module, const KernelVerifyOptions& options = {});

}  // namespace tektite
