#include "schedule/ahead.h"

#include <algorithm>
#include <set>

#include "ir/bytes.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

/// Bytes of a buffer that one execution of the stage touches.
int64_t touched(const Stage& stage, const StageAccess& a) {
  int64_t n = bytes(a.buffer->type.dtype);
  for (const StageAxis& axis : stage.axes)
    if (mentions(a.index, axis.var)) n *= std::min(axis.region.size, axis.extent);
  return n;
}

/// Does the place that the stage reads move with the tile?
bool moves(const Stage& stage, const StageAccess& a, const std::string& tile) {
  return std::ranges::any_of(stage.axes, [&](const StageAxis& axis) {
    return mentions(a.index, axis.var) && mentions({axis.region.base}, tile);
  });
}

}  // namespace

void fetchAhead(const GroupPlan& plan, const Target& target, Schedule& schedule) {
  const Level* near = target.level("l2");
  if (!near || target.kind != "cpu") return;
  for (size_t l = 0; l < plan.lists.size(); l++) {
    const TileList& list = plan.lists[l];
    if (list.tiles.empty()) continue;
    const std::string& tile = list.tiles.back().var;
    std::set<std::string> read, fetched;
    for (size_t k = 0; k < list.stages.size(); k++) {
      const Stage& stage = list.stages[k];
      StageSchedule& s = schedule.lists[l][k];
      if (stage.depth != static_cast<int>(list.tiles.size())) continue;
      for (const StageAccess& a : accessesOf(plan, stage)) {
        const std::string& name = a.buffer->name;
        const int64_t size = bytesOf(a.buffer->type);
        if (a.isStore || a.buffer->kind != PlanBuffer::Input || size <= near->bytes) continue;
        const bool again = read.count(name) != 0;
        if (again && !fetched.count(name) && !stage.contraction && s.vectorAxis >= 0 && !s.apart &&
            !s.across && touched(stage, a) <= near->bytes / 8 && moves(stage, a, tile) &&
            strideAlong(*a.buffer, a.index, stage.axes[s.vectorAxis].var) == 1) {
          s.ahead.push_back({name, tile});
          fetched.insert(name);
        }
      }
      for (const StageAccess& a : accessesOf(plan, stage))
        if (!a.isStore) read.insert(a.buffer->name);
    }
  }
}

}  // namespace tektite
