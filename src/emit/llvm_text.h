#pragma once
#include "emit/artifact.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

/// Strict: none; ordered and fast: contract. What `fast` may do more has been done to the kernel: reassoc would undo the functions'
/// own roundings, arcp and afn make NaN of x / inf in vectors.
enum class FastMath : uint8_t { None, Contract, Fast };

/// The attribute of a function whose inner loops add products up in more than half of the registers.
constexpr char kSumsFillRegisters[] = "tektite-sums-fill-registers";

/// LLVM IR text of one kernel (opaque pointers, LLVM 19) with KernelFunction's signature: a module of its own. Functions that targets
/// lack are expanded (ops/math); vector loops are vector types, an `if` in one is a mask; copies of queues are done at once.
/// Instructions that the target lacks are their meaning. UserError: an instruction of variable size.
Artifact emitLlvm(const KernelModule& module, const Kernel& kernel, const Target& target,
                  FastMath mode);

}  // namespace tektite
