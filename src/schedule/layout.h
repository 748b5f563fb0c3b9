#pragma once
#include <optional>
#include <string>
#include <vector>

#include "fusion/plan.h"
#include "ir/mentions.h"

namespace tektite {

int64_t sizeOf(const StageAxis&);  ///< in one execution, at most
/// The part of a plan's buffer that exists in memory, an axis each: the tensor's shape, or of a scratch buffer what a tile holds.
std::vector<int64_t> memoryShape(const PlanBuffer&);
int64_t memoryBytes(const PlanBuffer&);
/// Strides in elements of that part, in the buffer's order.
std::vector<int64_t> memoryStrides(const PlanBuffer&);
/// By how many elements an access moves when `var` grows by 1; nothing where it isn't affine in `var`.
std::optional<int64_t> strideAlong(const PlanBuffer&, const std::vector<Expr>& index,
                                   const std::string& var);
/// Do neighbours of `var`, `lanes` at a time, lie at constant distances in two vectors' span, but where an index is clamped? Strides of 2 do,
/// and indices that divide.
bool nearAlong(const PlanBuffer&, const std::vector<Expr>& index, const std::string& var,
               int lanes);
/// One load or store of a stage.
struct StageAccess {
  const PlanBuffer* buffer;
  std::vector<Expr> index;
  bool isStore;
  bool reduced;  ///< at every point of the reduce axes too, not once a space point
};
/// Bytes that one execution of the stage touches at such an index, where each dimension follows from axes of its own.
int64_t touchedBytes(const Stage&, const std::vector<Expr>& index, int64_t elementBytes);
/// Do most lines of what one execution of the stage touches there lie in sets of a cache of so many bytes that can't hold all of theirs?
/// Rows whose distance is a multiple of a large power of two do.
bool crowdsSets(const PlanBuffer&, const std::vector<Expr>& index, const Stage&,
                int64_t cacheBytes);
/// Everything that a stage touches, stores and loads of one expression in its order; guards and indices that read data count.
std::vector<StageAccess> accessesOf(const GroupPlan&, const Stage&);

}  // namespace tektite
