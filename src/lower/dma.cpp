#include "lower/dma.h"

#include <algorithm>
#include <set>

#include "lower/kernel_pass.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kFar = int64_t{1} << 32;  // more than any extent

/// Conditions a <= b and a < b as what must not be negative.
void conditions(const Expr& e, std::vector<Expr>& out, bool& plain) {
  const Apply* a = e.as<Apply>();
  if (a && a->op == Op::And) {
    conditions(a->args[0], out, plain);
    conditions(a->args[1], out, plain);
  } else if (a && (a->op == Op::Le || a->op == Op::Lt) && a->args[0].type() == DType::I64) {
    out.push_back(simplify(a->args[1] - a->args[0] - Expr(a->op == Op::Lt ? 1 : 0), {}));
  } else {
    plain = plain && asInteger(e) == 1;
  }
}

class DmaLowering {
 public:
  DmaLowering(const GroupPlan& plan, const Target& target) : plan_(plan), target_(target) {}

  LoweredKernel run(const std::string& name) {
    Kernel kernel;
    kernel.name = name;
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

 private:
  GroupPlan plan_;
  const Target& target_;
  KernelBuffers buffers_{plan_, {}, {}};
  LoweredKernel out_;
  const TileList* list_ = nullptr;
  const std::vector<StageSchedule>* schedule_ = nullptr;
  Ranges ranges_;
  std::vector<PlanBuffer*> scratch_;  // of the list
  Block outside_;                     // of the grid
  std::set<std::string> doubled_;     // two copies: the next tile's comes while this one runs

  bool isIn(const PlanBuffer& b) const {
    return !b.copyOf.empty() && plan_.buffer(b.copyOf).kind != PlanBuffer::Output;
  }
  bool isOut(const PlanBuffer& b) const { return !b.copyOf.empty() && !isIn(b); }

  void begin(const TileList& list, const std::vector<StageSchedule>& schedule) {
    list_ = &list;
    schedule_ = &schedule;
    ranges_.clear();
    for (const TileAxis& t : list.tiles) ranges_[t.var] = {0, std::max<int64_t>(t.count() - 1, 0)};
    scratch_.clear();
    const auto mine = buffersOf(list.stages);
    for (PlanBuffer& b : plan_.buffers)
      if (b.kind == PlanBuffer::Scratch && mine.count(b.name)) scratch_.push_back(&b);
    chooseDoubled();
  }
  static int64_t bytesOf(const PlanBuffer& b) {
    int64_t n = bytes(b.type.dtype);
    for (const int64_t e : memoryShape(b)) n *= e;
    return n;
  }
  /// What a serial loop brings anew for each tile, where there is room for two of all.
  void chooseDoubled() {
    doubled_.clear();
    std::map<std::string, int64_t> used;
    for (const PlanBuffer* b : scratch_) used[b->space] += bytesOf(*b);
    for (PlanBuffer* b : scratch_) {
      if (!isIn(*b) || b->ring >= 0 || b->depth == 0 || list_->tiles[b->depth - 1].grid) continue;
      if (used[b->space] + bytesOf(*b) > target_.level(b->space)->bytes) continue;
      used[b->space] += bytesOf(*b);
      doubled_.insert(b->name);
      buffers_.tile[b->name] = {
          simplify(floorMod(var(list_->tiles[b->depth - 1].var), Expr(2)), ranges_)};
    }
  }

  std::vector<const TileAxis*> grid() const {
    std::vector<const TileAxis*> out;
    for (const TileAxis& t : list_->tiles)
      if (t.grid) out.push_back(&t);
    return out;
  }
  Block tiles() {
    const bool grid = !list_->tiles.empty() && list_->tiles[0].grid;
    Block body = inside(0);
    if (grid) return body;
    Block out;
    out.push_back({For{"t", Expr(1), LoopMode::Parallel, std::move(body)}, ""});
    return out;
  }

  Stmt allocate(const PlanBuffer& b) const {
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
  /// Does the loop at this depth bring the newest part of a ring?
  bool bringsRing(const PlanBuffer& b, int depth) const {
    if (b.ring < 0 || !isIn(b)) return false;
    return depth == static_cast<int>(list_->tiles.size());
  }

  /// What runs inside the first `depth` tile loops: stages, the loops that follow, and the stages behind them. Each buffer has a block
  /// from where it is first used to where it is last.
  Block inside(int depth) {
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
    emit(items, depth, buffers, lives, 0, static_cast<int>(items.size()) - 1, out);
    return out;
  }
  bool uses(const Stage* item, int depth, const std::string& name) const {
    if (item) return buffersOf(*item).count(name) > 0;
    return std::ranges::any_of(list_->stages, [&](const Stage& s) {
      return s.depth > depth && buffersOf(s).count(name) > 0;
    });
  }
  /// The items from first to last, those that a buffer lives through in a block of their own.
  void emit(const std::vector<const Stage*>& items, int depth,
            std::vector<const PlanBuffer*> buffers, std::vector<Life> lives, int first, int last,
            Block& out) {
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
        if (isOut(*b)) queues.insert(takeBack(*b, body));
      for (const std::string& q : queues) body.push_back({Sync{Sync::Queue, q, 0}, ""});
      const bool whole = i == first && end == last;
      if (whole)
        for (Stmt& s : body) out.push_back(std::move(s));
      else
        out.push_back({BlockStmt{std::move(body)}, ""});
      i = end + 1;
    }
  }
  void item(const Stage* s, int depth, Block& out) {
    if (!s) return loop(depth, out);
    const size_t k = static_cast<size_t>(s - list_->stages.data());
    Block nest = stage(*s, (*schedule_)[k]);
    if (!nest.empty()) nest.front().comment = s->comment;
    for (Stmt& x : nest) out.push_back(std::move(x));
  }
  /// The newest parts of operands' rings.
  void bringRings(int depth, Block& out) {
    std::set<std::string> queues;
    for (const PlanBuffer* b : scratch_)
      if (bringsRing(*b, depth)) queues.insert(bring(*b, {}, {}, {}, out));
    for (const std::string& q : queues) out.push_back({Sync{Sync::Queue, q, 0}, ""});
  }
  void loop(int depth, Block& out) {
    const TileAxis& t = list_->tiles[depth];
    Block body;
    std::map<std::string, int64_t> ahead;
    for (const PlanBuffer* b : scratch_) {
      if (b->depth != depth + 1 || !doubled_.count(b->name)) continue;
      out.push_back(allocate(*b));
      bring(*b, t.var, Expr(0), Expr(0), out);
      const Expr next = var(t.var) + Expr(1);
      ahead[bring(*b, t.var, next, simplify(floorMod(next, Expr(2)), ranges_), body, &t)]++;
    }
    for (const auto& [queue, n] : ahead) body.push_back({Sync{Sync::Queue, queue, n}, ""});
    for (Stmt& s : inside(depth + 1)) body.push_back(std::move(s));
    out.push_back({For{t.var, Expr(t.count()), t.grid ? LoopMode::Parallel : LoopMode::Serial,
                       std::move(body)},
                   ""});
    for (const auto& [queue, n] : ahead) out.push_back({Sync{Sync::Queue, queue, 0}, ""});
  }

  // ---- copies

  struct Part {
    std::vector<CopyAxis> axes;
    std::vector<Expr> outside, inside;  // indices in main memory and in the tile's copy
  };
  /// The part of the buffer that the copy holds, or of a ring the newest one, clipped to the tensor.
  Part partOf(const PlanBuffer& b, const std::string& v, const Expr& value) const {
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
  const std::string& engine(const std::string& from, const std::string& to) const {
    const MemoryPath* path = target_.path(from, to);
    if (!path) path = target_.path("main", target_.scratch);
    return path->engine;
  }
  /// Where `ahead` is given nothing comes behind its last tile. Answers the queue.
  std::string bring(const PlanBuffer& b, const std::string& v, const Expr& value, const Expr& slot,
                    Block& out, const TileAxis* ahead = nullptr) const {
    Part p = partOf(b, v, value);
    if (ahead)
      p.axes[0].extent = min(p.axes[0].extent, (Expr(ahead->count()) - value) * Expr(kFar));
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
  std::string takeBack(const PlanBuffer& b, Block& out) const {
    Part p = partOf(b, {}, {});
    Copy c;
    c.to = Ref{b.copyOf, std::move(p.outside)};
    c.from = {b.name, std::move(p.inside)};
    c.axes = std::move(p.axes);
    c.queue = engine(b.space, "main");
    const std::string queue = c.queue;
    out.push_back({std::move(c), ""});
    return queue;
  }

  // ---- stages

  Block stage(const Stage& s, const StageSchedule& schedule) {
    if (const auto product = productOf(s, target_); product && isFed(*product))
      return lowerProduct(s, *product, buffers_, ranges_, grid(), target_, out_.module, outside_);
    if (const auto move = moveOf(s))
      if (auto copy = fromMain(s, *move)) return std::move(*copy);
    if (auto border = borders(s)) return std::move(*border);
    return lowerStage(s, schedule, buffers_, ranges_, out_.module);
  }
  bool isFed(const Product& p) const {
    for (const Expr* e : {&p.left, &p.right}) {
      const PlanBuffer& b = plan_.buffer(e->as<Load>()->buffer);
      const std::string& to = e == &p.left ? target_.matrix.left : target_.matrix.right;
      if (b.space.empty() || !target_.path(b.space, to)) return false;
    }
    return true;
  }
  /// A number around what lies inside of bounds, one strip before and one behind along each axis that has bounds.
  std::optional<Block> borders(const Stage& s) const {
    if (s.inner.size() != 1 || !s.outer.empty() || !s.accumulators.empty()) return {};
    const StageStore& store = s.inner[0];
    const Apply* outside = store.guard ? store.guard.as<Apply>() : nullptr;
    if (!outside || outside->op != Op::Not || !store.value.as<Imm>()) return {};
    std::vector<Expr> inside;
    bool plain = true;
    conditions(outside->args[0], inside, plain);
    if (!plain) return {};
    Block out;
    for (const Expr& e : inside) {  // axis - low >= 0, or high - 1 - axis >= 0
      const Linear l = linearOf(e);
      const Var* v = l.terms.size() == 1 ? l.terms[0].first.as<Var>() : nullptr;
      const auto axis = v ? std::ranges::find(s.axes, v->name, &StageAxis::var) : s.axes.end();
      if (axis == s.axes.end() || std::abs(l.terms[0].second) != 1) return {};
      const bool before = l.terms[0].second == 1;
      strip(s, static_cast<size_t>(axis - s.axes.begin()), before,
            before ? -l.constant : l.constant + 1, out);
    }
    return out;
  }
  void strip(const Stage& s, size_t along, bool before, int64_t bound, Block& out) const {
    std::unordered_map<std::string, Expr> at;
    std::vector<std::pair<std::string, Expr>> loops;
    for (size_t a = 0; a < s.axes.size(); a++) {
      const StageAxis& axis = s.axes[a];
      Expr low = max(axis.region.base, 0);
      Expr end = min(axis.region.base + Expr(axis.region.size), axis.extent);
      if (a == along && before) end = min(end, Expr(bound));
      if (a == along && !before) low = max(low, Expr(bound));
      low = simplify(low, ranges_);
      const std::string v = fmt::format("b{}", a);
      at[axis.var] = low + var(v);
      loops.emplace_back(v, simplify(end - low, ranges_));
    }
    std::vector<Expr> index;
    for (const Expr& e : s.inner[0].index) index.push_back(substitute(e, at));
    index = buffers_.index(s.inner[0].buffer, index);
    for (Expr& e : index) e = simplify(e, ranges_);
    Block body;
    body.push_back({Store{{{s.inner[0].buffer, std::move(index)}}, "", {s.inner[0].value}}, ""});
    for (size_t a = loops.size(); a-- > 0;) {
      Block outer;
      outer.push_back(
          {For{loops[a].first, loops[a].second, LoopMode::Serial, std::move(body)}, ""});
      body = std::move(outer);
    }
    for (Stmt& x : body) out.push_back(std::move(x));
  }
  /// An engine brings the elements; those that lie outside the tensor are the fill.
  std::optional<Block> fromMain(const Stage& s, const MoveStage& move) const {
    const Load& l = *move.load.as<Load>();
    const PlanBuffer& from = plan_.buffer(l.buffer);
    const PlanBuffer& to = plan_.buffer(s.inner[0].buffer);
    if (from.kind == PlanBuffer::Scratch || to.kind != PlanBuffer::Scratch) return {};
    for (const Expr& e : l.index)
      if (!loadsOf(e).empty()) return {};
    if (move.guard && !saysInRange(s, move, from)) return {};
    Copy c;
    std::unordered_map<std::string, Expr> at;
    for (size_t a = 0; a < s.axes.size(); a++) {
      const StageAxis& axis = s.axes[a];
      const Expr low = simplify(max(axis.region.base, 0), ranges_);
      const Expr n =
          simplify(min(axis.region.base + Expr(axis.region.size), axis.extent) - low, ranges_);
      const std::string v = fmt::format("c{}", a);
      if (isConstant(n, 1)) {
        at[axis.var] = low;
        continue;
      }
      at[axis.var] = low + var(v);
      c.axes.push_back({v, n});
    }
    if (c.axes.empty()) c.axes.push_back({"c", Expr(1)});
    const auto placed = [&](const std::vector<Expr>& index, const std::string& name) {
      std::vector<Expr> local;
      for (const Expr& e : index) local.push_back(substitute(e, at));
      local = buffers_.index(name, local);
      for (Expr& e : local) e = simplify(e, ranges_);
      return local;
    };
    c.from = {l.buffer, placed(l.index, l.buffer)};
    c.to = Ref{to.name, placed(s.inner[0].index, to.name)};
    c.fill = move.fill;
    c.queue = engine("main", to.space);
    Block out;
    const std::string queue = c.queue;
    out.push_back({std::move(c), ""});
    out.push_back({Sync{Sync::Queue, queue, 0}, ""});
    return out;
  }
  /// Is the guard just that the load is in range?
  static bool saysInRange(const Stage& s, const MoveStage& move, const PlanBuffer& from) {
    std::vector<Expr> says, means;
    bool plain = true;
    conditions(move.guard, says, plain);
    if (!plain) return false;
    const Load& l = *move.load.as<Load>();
    for (size_t d = 0; d < l.index.size(); d++) {
      means.push_back(simplify(l.index[d], {}));
      means.push_back(simplify(from.type.shape[d] - Expr(1) - l.index[d], {}));
    }
    Ranges axes;
    for (const StageAxis& a : s.axes) axes[a.var] = {0, a.extent - 1};
    const auto among = [](const std::vector<Expr>& list, const Expr& e) {
      return std::ranges::any_of(list,
                                 [&](const Expr& x) { return isConstant(simplify(x - e, {}), 0); });
    };
    return std::ranges::all_of(says, [&](const Expr& e) { return among(means, e); }) &&
           std::ranges::all_of(
               means, [&](const Expr& e) { return among(says, e) || proves(le(0, e), axes); });
  }
};

}  // namespace

LoweredKernel lowerExplicit(const GroupPlan& plan, const Target& target,
                            const std::string& kernelName) {
  return DmaLowering(plan, target).run(kernelName);
}

}  // namespace tektite
