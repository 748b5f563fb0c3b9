#pragma once
#include "schedule/layout.h"
#include "schedule/team.h"

namespace tektite {

constexpr int kVectorBytes = 16;  ///< the widest load of a thread

int64_t pointsOf(const Stage&, const std::vector<int>& axes);
/// The largest stride outermost, what lies side by side innermost.
void sortByStride(const Stage&, const std::vector<StageAccess>&, std::vector<int>& axes);
/// Is the place of every access a multiple of `n` elements, but for what runs along the axis?
bool inVectors(const StageAccess&, const std::string& axis, int64_t n);
/// Has the target this instruction of a warp (lower/team_intrins.cpp)? Machines that copy asynchronously have them all.
bool hasInstruction(const Target&, const std::string& name);
/// What a product is laid out as, where that is sooner than `otherwise` cycles: in TeamStage::product. `room`: bytes of shared memory for its
/// panels.
void chooseProduct(const GroupPlan&, const Stage&, const std::vector<StageAccess>&, TeamStage&,
                   double otherwise, int threads, double room, const Target&, Numerics);

}  // namespace tektite
