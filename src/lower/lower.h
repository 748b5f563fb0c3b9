#pragma once
#include "fusion/plan.h"
#include "ir/kernel.h"
#include "schedule/schedule.h"

namespace tektite {

/// A constant in the layout that a kernel wants: made once at compile time. element(d) = guard ? source[index(d)] : 0.
struct PackedConstant {
  std::string param;   ///< the kernel's parameter
  std::string source;  ///< a Constant buffer of the plan
  TensorType type;
  std::vector<Expr> index;  ///< over d0..
  Expr guard;               ///< null: none
};

struct LoweredKernel {
  KernelModule module;  ///< one kernel and the combines it declares
  std::vector<std::string>
      arguments;  ///< for each parameter: the plan's buffer, or the packed constant of that name
  std::vector<PackedConstant> packed;
  /// (output, input) buffers of the plan that may be the same memory: every element is read before or when it is written.
  std::vector<std::pair<std::string, std::string>> inPlace;
  const Kernel& kernel() const { return module.kernels[0]; }
};

/// The plan as lowering sees it: scratch layouts chosen, a reduction across tiles split into partials and their combination, axes that are
/// one in memory merged, long dependence chains cut.
GroupPlan prepare(const GroupPlan&, const Target&);
/// Loops from a prepared plan and its schedule.
LoweredKernel lower(const GroupPlan& prepared, const Schedule&, const Target&,
                    const std::string& kernelName);
/// prepare, chooseSchedule (or naiveSchedule), lower.
LoweredKernel lowerGroup(const GroupPlan&, const Target&, const std::string& kernelName,
                         bool scheduled = true);

}  // namespace tektite
