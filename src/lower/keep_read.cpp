#include "lower/keep_read.h"

#include <algorithm>
#include <optional>
#include <span>

#include "fusion/stages.h"
#include "ir/bytes.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

struct Part {
  Expr load;                    ///< at a point of a stage
  std::vector<Region> regions;  ///< of the buffer that the stage walks over, a dimension each
};

/// What a stage reads of the buffer; nothing where that isn't one element a point, and each as often as all others.
std::optional<Part> partOf(const Stage& stage, const PlanBuffer& b) {
  Part out;
  for (const Expr& e : loadsOf(stage))
    if (e.as<Load>()->buffer == b.name) {
      if (out.load) return {};
      out.load = e;
    }
  std::vector<const StageAxis*> used;
  for (int d = 0; d < b.type.rank(); d++) {
    const Expr& index = out.load.as<Load>()->index[static_cast<size_t>(d)];
    if (isConstant(index, 0) && b.type.extent(d) == 1) {
      out.regions.push_back({Expr(0), 1});
      continue;
    }
    const Var* v = index.as<Var>();
    const auto axis =
        v ? std::ranges::find(stage.axes, v->name, &StageAxis::var) : stage.axes.end();
    if (axis == stage.axes.end() || std::ranges::count(used, &*axis) ||
        axis->extent != b.type.extent(d))
      return {};
    used.push_back(&*axis);
    out.regions.push_back(axis->region);
  }
  return out;
}

bool touches(const Stage& stage, const std::string& buffer) {
  return buffersOf(stage).count(buffer) != 0;
}

/// The scratch buffer that stage `k`, the only one that reads `b` again, fills with what it makes of it, element by element; "": none.
std::string filledFrom(const GroupPlan& plan, const TileList& list, size_t k, const PlanBuffer& b,
                       const Expr& element) {
  for (const StageStore& s : list.stages[k].inner) {
    const PlanBuffer& to = plan.buffer(s.buffer);
    if (to.kind == PlanBuffer::Scratch && to.depth == static_cast<int>(list.tiles.size()) &&
        to.type == b.type && s.combine.empty() && s.index == element.as<Load>()->index &&
        slotsOf(s.value) >= 1 && readsOnlyThere(list.stages[k], s, b.name) &&
        std::ranges::none_of(std::span(list.stages).first(k),
                             [&](const Stage& before) { return touches(before, to.name); }))
      return to.name;
  }
  return "";
}

void keep(GroupPlan& plan, TileList& list, const PlanBuffer& b, int64_t cacheBytes) {
  const int depth = static_cast<int>(list.tiles.size());
  std::vector<size_t> readers;
  std::vector<Part> parts;
  for (size_t k = 0; k < list.stages.size(); k++) {
    const Stage& stage = list.stages[k];
    if (!touches(stage, b.name)) continue;
    const auto part = partOf(stage, b);
    if (!part || stage.depth != depth || stage.after || stage.contraction ||
        (!parts.empty() && part->regions != parts[0].regions))
      return;
    readers.push_back(k);
    parts.push_back(*part);
  }
  if (readers.size() < 2) return;
  Stage& first = list.stages[readers[0]];
  const std::vector<Expr>& index = parts[0].load.as<Load>()->index;
  if (!crowdsSets(b, index, first, cacheBytes) ||
      !std::ranges::all_of(first.axes, [&](const StageAxis& a) { return mentions(index, a.var); }))
    return;
  std::string to = readers.size() == 2 ? filledFrom(plan, list, readers[1], b, parts[1].load) : "";
  if (to.empty()) {
    PlanBuffer kept;
    kept.kind = PlanBuffer::Scratch;
    to = b.name + "_kept";
    while (std::ranges::count(plan.buffers, to, &PlanBuffer::name)) to += "_";  // of another list
    kept.name = to;
    kept.value = b.value;
    kept.type = b.type;
    kept.space = "l2";
    kept.depth = depth;
    kept.region = parts[0].regions;
    plan.buffers.push_back(std::move(kept));
  }
  first.inner.push_back({to, index, parts[0].load, "", {}});
  for (size_t i = 1; i < readers.size(); i++)
    list.stages[readers[i]] = mapped(list.stages[readers[i]], [&](const Expr& e) {
      return rewrite(e, [&](const Expr& x) {
        const Load* l = x.as<Load>();
        return l && l->buffer == b.name ? load(to, x.type(), l->index) : Expr();
      });
    });
}

}  // namespace

void keepRead(GroupPlan& plan, TileList& list, const Target& target) {
  const Level* near = target.level("l2");
  if (target.kind != "cpu" || !near || list.tiles.empty() || list.sync >= 0) return;
  for (const PlanBuffer& b : std::vector<PlanBuffer>(plan.buffers))
    if (b.kind == PlanBuffer::Input && bytesOf(b.type) > near->bytes)
      keep(plan, list, b, near->bytes);
}

}  // namespace tektite
