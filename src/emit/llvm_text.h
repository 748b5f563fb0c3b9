#pragma once
#include "emit/artifact.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

enum class FastMath : uint8_t { None, Contract, Fast };  ///< strict; ordered: contract; fast: contract reassoc arcp afn

/// LLVM IR text of one kernel (opaque pointers, LLVM 19) with KernelFunction's signature. Transcendentals are expanded (ops/math)
/// before this; buffers with explicit strides, vector loops as vector types, masks where an `if` stands in a vector loop.
/// Module text: declarations and functions of several kernels can be concatenated by emitModule.
Artifact emitLlvm(const KernelModule& module, const Kernel& kernel, const Target& target, FastMath mode);

}  // namespace tektite
