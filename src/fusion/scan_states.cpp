#include <algorithm>

#include "fusion/scan.h"
#include "fusion/stages.h"

namespace tektite {
namespace {

/// Which of a plan's outputs: they stand in the body's order.
size_t outputOf(const GroupPlan& plan, const PlanBuffer& buffer) {
  size_t k = 0;
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind != PlanBuffer::Output) continue;
    if (b.name == buffer.name) break;
    k++;
  }
  return k;
}

/// Every load of a state at an element that the same stage stores, always?
bool readsOwnStates(const Stage& s, const std::map<std::string, std::string>& stateOf) {
  for (const Expr& e : loadsOf(s)) {
    const Load& l = *e.as<Load>();
    const auto state = stateOf.find(l.buffer);
    if (state == stateOf.end() || !state->second.starts_with("state")) continue;
    const auto own = [&](const StageStore& store) {
      const auto to = stateOf.find(store.buffer);
      return to != stateOf.end() && to->second == state->second && store.index == l.index &&
             !store.guard;
    };
    if (std::ranges::none_of(s.inner, own) && std::ranges::none_of(s.outer, own)) return false;
  }
  return true;
}

}  // namespace

bool readsOwnStates(const ScanPart& part) {
  const std::vector<Value> inputs = part.body->inputs();
  std::map<std::string, std::string> stateOf;  // buffer of the part -> of the scan
  for (const PlanBuffer& b : part.plan->buffers) {
    if (b.kind == PlanBuffer::Input)
      stateOf[b.name] =
          part.inputs[static_cast<size_t>(std::ranges::find(inputs, b.value) - inputs.begin())]
              .buffer;
    if (b.kind == PlanBuffer::Output)
      stateOf[b.name] = part.outputs[outputOf(*part.plan, b)][0].buffer;
  }
  for (const PlanBuffer& b : part.plan->buffers)  // a tile's copy of one
    if (const auto of = stateOf.find(b.copyOf); !b.copyOf.empty() && of != stateOf.end())
      stateOf[b.name] = of->second;
  for (const TileList& list : part.plan->lists) {
    if (list.sync >= 0) return false;
    for (const Stage& s : list.stages)
      if (!readsOwnStates(s, stateOf)) return false;
  }
  return true;
}

}  // namespace tektite
