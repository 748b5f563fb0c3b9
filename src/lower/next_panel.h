#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "ir/kernel.h"

namespace tektite {

/// A loop that is open around what is being written; it runs `most` times, or less.
struct OpenLoop {
  std::string var;
  int64_t most;
};

/// What a step of a product fetches of the panel after the one that it uses, as a copy without destination, in every step or in some: all steps of all blocks of rows that meet the panel bring it together. `first` is the element that the panel begins
/// with; coordinate `dimension` counts panels. Nothing where one block meets the panel: it would have to come as fast as it goes.
std::optional<Stmt> nextPanel(const PlanBuffer& panels, std::vector<Expr> first, size_t dimension,
                              std::span<const OpenLoop> blocks, std::span<const OpenLoop> steps);

}  // namespace tektite
