#pragma once
#include "fusion/plan.h"

namespace tektite {

constexpr int64_t kPanelColumns = 64;  ///< that panels hold at least, roughly: a register tile's
constexpr int64_t kPanelRows = 32;     ///< for which copying into panels pays

/// Bytes of the near cache that panels made in a kernel may take; the rest is for what goes by.
int64_t roomForPanels(const Target&);
/// Would an operand that is data be better off in panels, although its elements may lie side by side along the lanes? Where what a panel
/// holds doesn't stay in the near cache from one block of rows to the next: it is too much, or its lines share few sets.
bool wantsPanels(const PlanBuffer&, const std::vector<Expr>& index, const Stage&,
                 const StageAxis& lanes, const Target&);

}  // namespace tektite
