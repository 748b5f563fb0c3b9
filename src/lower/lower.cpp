#include "lower/lower.h"

#include <algorithm>
#include <set>

#include "fusion/stages.h"
#include "lower/kernel_pass.h"
#include "lower/nest.h"
#include "lower/pack.h"
#include "lower/team.h"
#include "lower/team_intrins.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLineBytes = 64;

std::vector<Expr> exprs(const std::vector<int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

std::string spaceOf(const PlanBuffer& b) {
  if (b.kind != PlanBuffer::Scratch) return "main";
  return b.space.empty() || (b.space == "main" && b.depth > 0) ? "l2" : b.space;
}
void declareIntrin(KernelModule& module, const IntrinDef& def) {
  if (!module.intrin(def.name)) module.intrins.push_back(def);
}

namespace {

Buffer allocate(const PlanBuffer& b) { return allocate(b, spaceOf(b)); }

/// Adds a declaration of the combine to the module where it needs one.
void declareCombine(KernelModule& module, const Combine& c) {
  if (!isBuiltinCombine(c.name) && !module.combine(c.name)) module.combines.push_back(c);
}

class ListLowering {
 public:
  ListLowering(const TileList& list, const std::vector<StageSchedule>& schedule,
               const KernelBuffers& buffers, const std::vector<const PlanBuffer*>& scratch,
               KernelModule& module)
      : list_(list), schedule_(schedule), buffers_(buffers), scratch_(scratch), module_(module) {
    for (const TileAxis& t : list.tiles) ranges_[t.var] = {0, std::max<int64_t>(t.count() - 1, 0)};
  }

  Block run() {
    const bool grid = !list_.tiles.empty() && list_.tiles[0].grid;
    Block body = inside(0);
    if (grid) return body;
    Block out;  // no axis to run in parallel: one tile
    out.push_back({For{"t", Expr(1), LoopMode::Parallel, std::move(body)}, ""});
    return out;
  }

 private:
  /// What runs inside the first `depth` tile loops, the further loops in it.
  Block inside(int depth) {
    Block out;
    if (depth > 0 || list_.tiles.empty() || !list_.tiles[0].grid)
      for (const PlanBuffer* b : scratch_)
        if (b->depth == depth && !sharedByTiles(*b)) out.push_back({Alloc{allocate(*b)}, ""});
    const int deepest = static_cast<int>(list_.tiles.size());
    stages(depth, false, out);
    if (depth < deepest) {
      const TileAxis& t = list_.tiles[depth];
      out.push_back({For{t.var, Expr(t.count()), t.grid ? LoopMode::Parallel : LoopMode::Serial,
                         inside(depth + 1)},
                     ""});
    }
    stages(depth, true, out);
    return out;
  }
  void stages(int depth, bool after, Block& out) {
    for (size_t k = 0; k < list_.stages.size(); k++) {
      if (list_.stages[k].depth != depth || list_.stages[k].after != after) continue;
      Block nest = lowerStage(list_.stages[k], schedule_[k], buffers_, ranges_, module_);
      if (!nest.empty()) nest.front().comment = list_.stages[k].comment;
      for (Stmt& s : nest) out.push_back(std::move(s));
      if (static_cast<int>(k) == list_.sync)
        out.push_back({Sync{Sync::Last, list_.tiles.back().var, 0}, ""});
    }
  }

  const TileList& list_;
  const std::vector<StageSchedule>& schedule_;
  const KernelBuffers& buffers_;
  const std::vector<const PlanBuffer*>& scratch_;
  KernelModule& module_;
  Ranges ranges_;
};

/// Stores past the caches need whole aligned lines.
void alignStreamed(Kernel& kernel, const GroupPlan& plan, const Schedule& schedule) {
  for (size_t l = 0; l < plan.lists.size(); l++)
    for (size_t k = 0; k < plan.lists[l].stages.size(); k++)
      for (const auto* stores : {&plan.lists[l].stages[k].inner, &plan.lists[l].stages[k].outer})
        for (const StageStore& s : *stores)
          for (Param& p : kernel.params)
            if (schedule.lists[l][k].stream && p.buffer.name == s.buffer)
              p.buffer.align = kLineBytes;
}

/// May an output take an input's memory? Where one stage alone runs, reads that input only at the element it writes, and once.
std::vector<std::pair<std::string, std::string>> inPlacePairs(const GroupPlan& plan,
                                                              const Schedule& schedule) {
  std::vector<std::pair<std::string, std::string>> out;
  if (plan.lists.size() != 1 || plan.lists[0].stages.size() != 1) return out;
  const Stage& s = plan.lists[0].stages[0];
  if (!s.accumulators.empty() || s.inner.size() + s.outer.size() != 1 ||
      schedule.lists[0][0].unrollAxis >= 0)
    return out;
  const StageStore& store = s.inner.empty() ? s.outer[0] : s.inner[0];
  const PlanBuffer& to = plan.buffer(store.buffer);
  for (const PlanBuffer& from : plan.buffers) {
    if (from.kind != PlanBuffer::Input || from.type.dtype != to.type.dtype ||
        !(from.type.shape == to.type.shape))
      continue;
    if (memoryStrides(from) != memoryStrides(to)) continue;
    bool same = true;
    for (const Expr& e : loadsOf(store.value))
      if (e.as<Load>()->buffer == from.name) same = same && e.as<Load>()->index == store.index;
    if (same) out.emplace_back(to.name, from.name);
  }
  return out;
}

}  // namespace

Buffer declare(const PlanBuffer& b) {
  Buffer out;
  out.name = b.name;
  out.type = b.type.dtype;
  out.shape = exprs(b.type.extents());
  if (!b.order.empty() && !std::is_sorted(b.order.begin(), b.order.end()))
    out.strides = exprs(memoryStrides(b));
  return out;
}

bool sharedByTiles(const PlanBuffer& b) { return b.space == "main" && b.depth == 0; }

Buffer allocate(const PlanBuffer& b, const std::string& space) {
  Buffer out;
  out.name = b.name;
  out.type = b.type.dtype;
  out.space = space;
  const auto shape = memoryShape(b);
  for (size_t i = 0; i < shape.size(); i++)
    out.shape.emplace_back(shape[b.order.empty() ? i : static_cast<size_t>(b.order[i])]);
  return out;
}

LoweredKernel lower(const GroupPlan& prepared, const Schedule& chosen, const Target& target,
                    const std::string& kernelName) {
  GroupPlan plan = prepared;
  Schedule schedule = chosen;
  LoweredKernel out;
  out.inPlace = inPlacePairs(plan, schedule);
  packOperands(plan, schedule, target, out.packed);

  Kernel kernel;
  kernel.name = kernelName;
  std::set<std::string> used;
  for (const TileList& list : plan.lists)
    for (const std::string& n : buffersOf(list.stages)) used.insert(n);
  KernelBuffers buffers{plan, {}};
  for (const PlanBuffer& b : plan.buffers) buffers.names[b.name] = b.name;
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind == PlanBuffer::Scratch || !used.count(b.name)) continue;
    kernel.params.push_back({b.kind == PlanBuffer::Output ? Param::Out : Param::In, declare(b)});
    out.arguments.push_back(b.name);
  }
  alignStreamed(kernel, plan, schedule);
  for (const PlanBuffer& b : plan.buffers)
    if (b.kind == PlanBuffer::Scratch && sharedByTiles(b) && used.count(b.name))
      kernel.body.push_back({Alloc{allocate(b)}, ""});
  for (size_t l = 0; l < plan.lists.size(); l++) {
    const auto mine = buffersOf(plan.lists[l].stages);
    std::vector<const PlanBuffer*> scratch;
    for (const PlanBuffer& b : plan.buffers)
      if (b.kind == PlanBuffer::Scratch && mine.count(b.name)) scratch.push_back(&b);
    const TeamSchedule& team = schedule.team;
    for (Stmt& s :
         team.threads
             ? lowerTeamList(plan.lists[l], team.lists[l], team.threads, buffers, scratch, target)
             : ListLowering(plan.lists[l], schedule.lists[l], buffers, scratch, out.module).run())
      kernel.body.push_back(std::move(s));
    for (const Stage& s : plan.lists[l].stages)
      for (const Accumulator& a : s.accumulators) declareCombine(out.module, a.combine);
  }
  declareIntrins(out.module, kernel.body);
  out.module.kernels.push_back(std::move(kernel));
  out.module = runKernelPasses(out.module, kernelPipeline());
  return out;
}

LoweredKernel lowerGroup(const GroupPlan& plan, const Target& target, const std::string& kernelName,
                         bool scheduled) {
  const GroupPlan prepared = prepare(plan, target);
  return lower(prepared, scheduled ? chooseSchedule(prepared, target) : naiveSchedule(prepared),
               target, kernelName);
}

}  // namespace tektite
