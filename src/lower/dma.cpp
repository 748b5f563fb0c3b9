#include <algorithm>

#include "ir/rewriter.h"
#include "lower/block_products.h"
#include "lower/dma_lowering.h"
#include "lower/kernel_pass.h"
#include "lower/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kFar = int64_t{1} << 32;  // more than any extent

}  // namespace

LoweredKernel DmaLowering::run(const std::string& name) {
  Kernel kernel;
  kernel.name = name;
  splitReductions();
  std::set<std::string> used;
  for (const TileList& list : plan_.lists)
    for (const std::string& n : buffersOf(list.stages)) used.insert(n);
  for (const PlanBuffer& b : plan_.buffers)
    if (used.count(b.name) && !b.copyOf.empty()) used.insert(b.copyOf);
  for (const PlanBuffer& b : plan_.buffers) {
    buffers_.names[b.name] = b.name;
    if (b.kind == PlanBuffer::Scratch || !used.count(b.name)) continue;
    kernel.params.push_back({b.kind == PlanBuffer::Output ? Param::Out : Param::In, declare(b)});
    out_.arguments.push_back(b.name);
  }
  for (const PlanBuffer& b : plan_.buffers)
    if (b.kind == PlanBuffer::Scratch && sharedByTiles(b) && used.count(b.name))
      kernel.body.push_back({Alloc{tektite::allocate(b, "main")}, ""});
  const Schedule naive = naiveSchedule(plan_);
  for (size_t l = 0; l < plan_.lists.size(); l++) {
    begin(plan_.lists[l], naive.lists[l]);
    Block body = tiles();
    for (Stmt& s : outside_) kernel.body.push_back(std::move(s));
    outside_.clear();
    for (Stmt& s : body) kernel.body.push_back(std::move(s));
    for (const Stage& s : list_->stages)
      for (const Accumulator& a : s.accumulators)
        if (!isBuiltinCombine(a.combine.name) && !out_.module.combine(a.combine.name))
          out_.module.combines.push_back(a.combine);
  }
  out_.module.kernels.push_back(std::move(kernel));
  out_.module = runKernelPasses(out_.module, kernelPipeline());
  return std::move(out_);
}

void DmaLowering::splitReductions() {
  for (TileList& list : plan_.lists) {
    if (list.sync < 0) continue;
    splitPartials(plan_, list, list.sync, false);
    copyParts(list, list.sync);
  }
}

void DmaLowering::copyParts(TileList& list, int at) {
  Stage &own = list.stages[at], &joins = list.stages[at + 1];
  std::map<std::string, std::string> all;
  for (StageStore& store : own.outer) {
    PlanBuffer mine = plan_.buffer(store.buffer);
    mine.copyOf = store.buffer;
    mine.space = target_.scratch;
    mine.depth = own.depth;
    mine.region.clear();
    for (const StageAxis& a : own.axes)
      if (!a.reduce) mine.region.push_back(a.region);
    PlanBuffer parts = mine;
    mine.region.insert(mine.region.begin(), {var(list.tiles.back().var), 1});
    parts.region.insert(parts.region.begin(), {Expr(0), list.tiles.back().count()});
    mine.name = store.buffer + "_here";
    parts.name = store.buffer + "_all";
    all[store.buffer] = parts.name;
    store.buffer = mine.name;
    plan_.buffers.push_back(std::move(mine));
    plan_.buffers.push_back(std::move(parts));
  }
  for (Accumulator& a : joins.accumulators)
    for (Expr& e : a.values)
      e = rewrite(e, [&](const Expr& x) -> Expr {
        const Load* l = x.as<Load>();
        const auto it = l ? all.find(l->buffer) : all.end();
        return it == all.end() ? Expr() : load(it->second, x.type(), l->index);
      });
}

void DmaLowering::begin(const TileList& list, const std::vector<StageSchedule>& schedule) {
  list_ = &list;
  schedule_ = &schedule;
  ranges_.clear();
  for (const TileAxis& t : list.tiles) ranges_[t.var] = {0, std::max<int64_t>(t.count() - 1, 0)};
  scratch_.clear();
  const auto mine = buffersOf(list.stages);
  for (PlanBuffer& b : plan_.buffers)
    if (b.kind == PlanBuffer::Scratch && mine.count(b.name)) scratch_.push_back(&b);
  stored_.clear();
  for (const Stage& s : list.stages)
    for (const auto* stores : {&s.inner, &s.outer})
      for (const StageStore& store : *stores) stored_.insert(store.buffer);
  chooseDoubled();
}

void DmaLowering::chooseDoubled() {
  doubled_.clear();
  std::map<std::string, int64_t> used;
  for (const PlanBuffer* b : scratch_) used[b->space] += memoryBytes(*b);
  if (exchanges()) used[target_.scratch] += target_.level(target_.scratch)->bytes / kExchangeShare;
  for (const bool takes : {false, true})
    for (PlanBuffer* b : scratch_) {
      if (!(takes ? isOut(*b) : isIn(*b)) || b->ring >= 0 || b->depth == 0 ||
          list_->tiles[b->depth - 1].grid)
        continue;
      if (takes && (list_->sync >= 0 || b->space != target_.scratch || !storesBeside(target_)))
        continue;
      if (used[b->space] + memoryBytes(*b) > target_.level(b->space)->bytes) continue;
      used[b->space] += memoryBytes(*b);
      doubled_.insert(b->name);
      buffers_.tile[b->name] = {
          simplify(floorMod(var(list_->tiles[b->depth - 1].var), Expr(2)), ranges_)};
    }
}

bool DmaLowering::exchanges() const {
  return target_.operands != target_.scratch &&
         std::ranges::any_of(list_->stages, [&](const Stage& s) {
           const auto product = productOf(s, target_);
           return product && isFed(*product) && !storesItself(s);
         });
}

std::vector<const TileAxis*> DmaLowering::grid() const {
  std::vector<const TileAxis*> out;
  for (const TileAxis& t : list_->tiles)
    if (t.grid) out.push_back(&t);
  return out;
}

Block DmaLowering::tiles() {
  const bool grid = !list_->tiles.empty() && list_->tiles[0].grid;
  Block body = inside(0);
  if (grid) return body;
  Block out;
  out.push_back({For{"t", Expr(1), LoopMode::Parallel, std::move(body)}, ""});
  return out;
}

Stmt DmaLowering::allocate(const PlanBuffer& b) const {
  Buffer out;
  out.name = b.name;
  out.type = b.type.dtype;
  out.space = b.space;
  const Level* level = target_.level(b.space);
  if (level->align > bytes(out.type)) out.align = level->align;
  if (doubled_.count(b.name)) out.shape.emplace_back(2);
  for (const int64_t n : memoryShape(b)) out.shape.emplace_back(std::max<int64_t>(n, 1));
  return {Alloc{std::move(out)}, b.copyOf.empty() ? "" : "a part of " + b.copyOf};
}

Block DmaLowering::inside(int depth) {
  std::vector<const Stage*> items;  // null: the loop
  for (const Stage& s : list_->stages)
    if (s.depth == depth && !s.after) items.push_back(&s);
  if (depth < static_cast<int>(list_->tiles.size())) items.push_back(nullptr);
  for (const Stage& s : list_->stages)
    if (s.depth == depth && s.after) items.push_back(&s);
  const bool open = depth > 0 || list_->tiles.empty() || !list_->tiles[0].grid;
  std::vector<const PlanBuffer*> buffers;
  std::vector<Life> lives;
  for (const PlanBuffer* b : scratch_) {
    if (!open || b->depth != depth || doubled_.count(b->name)) continue;
    Life life{INT32_MAX, -1};
    for (int i = 0; i < static_cast<int>(items.size()); i++)
      if (uses(items[i], depth, b->name)) life = {std::min(life.first, i), i};
    if (life.last < 0) continue;
    buffers.push_back(b);
    lives.push_back(life);
  }
  nestLives(lives);
  Block out;
  bringRings(depth, out);
  const int last = static_cast<int>(items.size()) - 1;
  if (list_->sync < 0) {
    emit(items, depth, buffers, lives, 0, last, out);
  } else if (depth == static_cast<int>(list_->tiles.size())) {
    for (const bool behind : {false, true}) {
      Block side;
      emit(items, depth, buffers, lives, behind ? list_->sync + 1 : 0, behind ? last : list_->sync,
           side);
      out.push_back({BlockStmt{std::move(side)}, ""});
      if (!behind) out.push_back({Sync{Sync::Last, list_->tiles.back().var, 0}, ""});
    }
  } else {
    loop(depth, out);
  }
  return out;
}

bool DmaLowering::uses(const Stage* item, int depth, const std::string& name) const {
  if (item) return buffersOf(*item).count(name) > 0;
  return std::ranges::any_of(list_->stages, [&](const Stage& s) {
    return s.depth > depth && buffersOf(s).count(name) > 0;
  });
}

void DmaLowering::emit(const std::vector<const Stage*>& items, int depth,
                       std::vector<const PlanBuffer*> buffers, std::vector<Life> lives, int first,
                       int last, Block& out) {
  for (int i = first; i <= last;) {
    // The longest lives that begin here.
    int end = -1;
    for (const Life& l : lives)
      if (l.first == i) end = std::max(end, l.last);
    if (end < 0) {
      item(items[i], depth, out);
      i++;
      continue;
    }
    std::vector<const PlanBuffer*> mine, inner;
    std::vector<Life> innerLives;
    for (size_t k = 0; k < buffers.size(); k++) {
      if (lives[k].first == i && lives[k].last == end) {
        mine.push_back(buffers[k]);
      } else if (lives[k].first >= i && lives[k].last <= end) {
        inner.push_back(buffers[k]);
        innerLives.push_back(lives[k]);
      }
    }
    Block body;
    std::set<std::string> queues;
    for (const PlanBuffer* b : mine) body.push_back(allocate(*b));
    for (const PlanBuffer* b : mine)
      if (isIn(*b) && b->ring < 0) queues.insert(bring(*b, {}, {}, {}, body));
    for (const std::string& q : queues) body.push_back({Sync{Sync::Queue, q, 0}, ""});
    emit(items, depth, inner, innerLives, i, end, body);
    queues.clear();
    for (const PlanBuffer* b : mine)
      if (isOut(*b)) queues.insert(takeBack(*b, {}, body));
    for (const std::string& q : queues) body.push_back({Sync{Sync::Queue, q, 0}, ""});
    const bool whole = i == first && end == last;
    if (whole)
      for (Stmt& s : body) out.push_back(std::move(s));
    else
      out.push_back({BlockStmt{std::move(body)}, ""});
    i = end + 1;
  }
}

void DmaLowering::item(const Stage* s, int depth, Block& out) {
  if (!s) return loop(depth, out);
  const size_t k = static_cast<size_t>(s - list_->stages.data());
  Block nest = stage(*s, (*schedule_)[k]);
  if (!nest.empty()) nest.front().comment = s->comment;
  for (Stmt& x : nest) out.push_back(std::move(x));
}

void DmaLowering::bringRings(int depth, Block& out) {
  std::set<std::string> queues;
  for (const PlanBuffer* b : scratch_)
    if (bringsRing(*b, depth)) queues.insert(bring(*b, {}, {}, {}, out));
  for (const std::string& q : queues) out.push_back({Sync{Sync::Queue, q, 0}, ""});
}

void DmaLowering::loop(int depth, Block& out) {
  const TileAxis& t = list_->tiles[depth];
  Block body, taken;
  std::map<std::string, int64_t>
      beside;  // operations of one tile that may be under way in the next
  for (const PlanBuffer* b : scratch_) {
    if (b->depth != depth + 1 || !doubled_.count(b->name)) continue;
    out.push_back(allocate(*b));
    if (isOut(*b)) {
      beside[takeBack(*b, buffers_.tile.at(b->name)[0], taken)]++;
      continue;
    }
    bring(*b, t.var, Expr(0), Expr(0), out);
    const Expr next = var(t.var) + Expr(1);
    beside[bring(*b, t.var, next, simplify(floorMod(next, Expr(2)), ranges_), body, &t)]++;
  }
  for (const auto& [queue, n] : beside) body.push_back({Sync{Sync::Queue, queue, n}, ""});
  for (Stmt& s : inside(depth + 1)) body.push_back(std::move(s));
  for (Stmt& s : taken) body.push_back(std::move(s));
  out.push_back(
      {For{t.var, Expr(t.count()), t.grid ? LoopMode::Parallel : LoopMode::Serial, std::move(body)},
       ""});
  for (const auto& [queue, n] : beside) out.push_back({Sync{Sync::Queue, queue, 0}, ""});
}

DmaLowering::Part DmaLowering::partOf(const PlanBuffer& b, const std::string& v,
                                      const Expr& value) const {
  const auto at = [&](const Expr& e) { return v.empty() ? e : substitute(e, {{v, value}}); };
  Ranges ranges = ranges_;
  Part p;
  for (size_t d = 0; d < b.region.size(); d++) {
    const bool ring = static_cast<int>(d) == b.ring;
    const Region& r = ring ? b.newest : b.region[d];
    const Expr base = simplify(at(r.base), ranges), low = simplify(max(base, 0), ranges);
    const Expr n = simplify(min(base + Expr(r.size), b.type.shape[d]) - low, ranges);
    Expr step = 0;
    if (!isConstant(n, 1)) {
      step = var(fmt::format("c{}", d));
      p.axes.push_back({fmt::format("c{}", d), n});
    }
    p.outside.push_back(simplify(low + step, ranges));
    p.inside.push_back(simplify(
        ring ? floorMod(low + step, Expr(b.region[d].size)) : low + step - at(b.region[d].base),
        ranges));
  }
  if (p.axes.empty()) p.axes.push_back({"c", Expr(1)});
  return p;
}

const std::string& DmaLowering::engine(const std::string& from, const std::string& to) const {
  const MemoryPath* path = target_.path(from, to);
  if (!path) path = target_.path("main", target_.scratch);
  return path->engine;
}

std::string DmaLowering::bring(const PlanBuffer& b, const std::string& v, const Expr& value,
                               const Expr& slot, Block& out, const TileAxis* ahead) const {
  Part p = partOf(b, v, value);
  if (ahead) p.axes[0].extent = min(p.axes[0].extent, (Expr(ahead->count()) - value) * Expr(kFar));
  if (slot) p.inside.insert(p.inside.begin(), slot);
  Copy c;
  c.to = Ref{b.name, std::move(p.inside)};
  c.from = {b.copyOf, std::move(p.outside)};
  c.axes = std::move(p.axes);
  c.queue = engine("main", b.space);
  const std::string queue = c.queue;
  out.push_back({std::move(c), ""});
  return queue;
}

std::string DmaLowering::takeBack(const PlanBuffer& b, const Expr& slot, Block& out) const {
  Part p = partOf(b, {}, {});
  if (slot) p.inside.insert(p.inside.begin(), slot);
  Copy c;
  c.to = Ref{b.copyOf, std::move(p.outside)};
  c.from = {b.name, std::move(p.inside)};
  c.axes = std::move(p.axes);
  c.queue = engine(b.space, "main");
  const std::string queue = c.queue;
  out.push_back({std::move(c), ""});
  return queue;
}

LoweredKernel lowerExplicit(const GroupPlan& plan, const Target& target,
                            const std::string& kernelName) {
  return DmaLowering(plan, target).run(kernelName);
}

}  // namespace tektite
