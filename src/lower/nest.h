#pragma once
#include <map>
#include <string>

#include "fusion/plan.h"
#include "ir/kernel.h"
#include "schedule/schedule.h"

namespace tektite {

/// How the buffers of a plan stand in a kernel.
struct KernelBuffers {
  const GroupPlan& plan;
  std::map<std::string, std::string> names;  ///< plan buffer -> kernel buffer
  std::map<std::string, std::vector<Expr>> tile =
      {};  ///< of scratch that lies in main: which tile's part it is
  /// The element of a kernel buffer at coordinates of the whole tensor.
  std::vector<Expr> index(const std::string& planBuffer, const std::vector<Expr>& at) const;
};

/// The memory space of a plan's buffer in a kernel.
std::string spaceOf(const PlanBuffer&);
/// The declaration of a parameter: strides where the layout isn't row-major.
Buffer declare(const PlanBuffer&);
/// The expression with known values in place of what computes them.
Expr reuse(const Expr&, const std::vector<std::pair<Expr, Expr>>& known);
/// Adds a declaration to the module where it has none of that name.
void declareIntrin(KernelModule&, const IntrinDef&);

/// The loops of one stage. `tiles` are the ranges of the tile variables around it; the module gets the instructions that they call.
Block lowerStage(const Stage&, const StageSchedule&, const KernelBuffers&, const Ranges& tiles,
                 KernelModule&);

}  // namespace tektite
