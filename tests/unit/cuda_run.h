#pragma once
#include <functional>

#include "ir/target.h"
#include "kernel_harness.h"

namespace tektite {

/// The first kernel as CUDA prints it, its helpers in plain C++, run on the CPU (tests/cuda_on_cpu.h) against the kernel interpreter; fails
/// where an output is off by more than `tolerance` of its largest magnitude. `prepare` changes its random inputs.
void checkOnCpu(const KernelModule&, const std::vector<testing::Dims>& shapes, const Target&,
                double tolerance, const std::function<void(testing::Tensors&)>& prepare = {});

}  // namespace tektite
