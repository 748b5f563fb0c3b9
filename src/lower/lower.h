#pragma once
#include "fusion/plan.h"
#include "ir/kernel.h"
#include "schedule/schedule.h"

namespace tektite {

/// A constant in the layout that a kernel wants: made once at compile time. element(d) = guard ? source[index(d)] : 0.
struct PackedConstant {
  std::string param;          ///< the kernel's parameter
  std::string source;         ///< a Constant buffer of the plan
  TensorType type;
  std::vector<Expr> index;    ///< over d0..
  Expr guard;                 ///< null: none
};

struct LoweredKernel {
  KernelModule module;                     ///< one kernel and the combines it declares
  std::vector<std::string> arguments;      ///< for each parameter: the plan's buffer, or the packed constant of that name
  std::vector<PackedConstant> packed;
  const Kernel& kernel() const { return module.kernels[0]; }
};

/// Loops from a plan. Without a schedule: naive loops, right and slow. With one: tiled, vectorised, packed.
LoweredKernel lower(const GroupPlan&, const Schedule*, const Target&, const std::string& kernelName);

}  // namespace tektite
