#include "lower/one_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ir/kernel_walk.h"
#include "lower/kernel_rewrite.h"

namespace tektite {
namespace {

Block renamed(const Block& block, const std::map<std::string, std::string>& names) {
  const auto to = [&](std::string& name) {
    if (const auto it = names.find(name); it != names.end()) name = it->second;
  };
  Block out;
  for (const Stmt& s : block) {
    Stmt t = mapStmtExprs(s, [&](const Expr& root) {
      return rewrite(root, [&](const Expr& e) -> Expr {
        const Load* l = e.as<Load>();
        const auto it = l ? names.find(l->buffer) : names.end();
        return it == names.end() ? Expr() : load(it->second, e.type(), l->index);
      });
    });
    if (const Block* body = bodyOf(t)) t = withBody(t, renamed(*body, names));
    if (Alloc* a = std::get_if<Alloc>(&t.kind)) to(a->buffer.name);
    if (Store* store = std::get_if<Store>(&t.kind))
      for (Ref& r : store->targets) to(r.buffer);
    if (Copy* c = std::get_if<Copy>(&t.kind)) {
      to(c->from.buffer);
      if (c->to) to(c->to->buffer);
    }
    if (Intrin* i = std::get_if<Intrin>(&t.kind))
      for (IntrinArg& a : i->args)
        if (Ref* r = std::get_if<Ref>(&a.value)) to(r->buffer);
    out.push_back(std::move(t));
  }
  return out;
}

/// Grids and waits between them, in order on one core.
Block inOrder(const Block& block) {
  Block out;
  for (const Stmt& s : block) {
    if (const Sync* y = s.as<Sync>(); y && y->kind == Sync::Grid) continue;
    const Block* body = bodyOf(s);
    Stmt t = body ? withBody(s, inOrder(*body)) : s;
    if (For* f = std::get_if<For>(&t.kind); f && f->mode == LoopMode::Parallel)
      f->mode = LoopMode::Serial;
    out.push_back(std::move(t));
  }
  return out;
}

/// Buffers of the kernel's own, in the scratchpad.
class OneTile {
 public:
  OneTile(const KernelModule& module, const Target& target)
      : module_(module), level_(*target.level(target.scratch)) {}

  Block run(const Block& body) {
    Block main, steps;
    for (const Stmt& s : inOrder(body)) (s.as<Alloc>() ? main : steps).push_back(s);
    room_ = level_.bytes - peakOf(steps, level_.name);
    for (const Stmt& s : steps) touched_.push_back(touchedBy({s}, module_));
    std::ranges::stable_sort(main, {},
                             [&](const Stmt& s) { return firstUse(s.as<Alloc>()->buffer); });
    Block out;
    for (const Stmt& s : main)
      if (!keep(s.as<Alloc>()->buffer)) out.push_back(s);
    Block inside;
    for (const Place& p : places_) inside.push_back({Alloc{p.buffer}, "passed on"});
    for (Stmt& s : renamed(steps, names_)) inside.push_back(std::move(s));
    out.push_back({For{"core", Expr(1), LoopMode::Parallel, std::move(inside)}, ""});
    return out;
  }

 private:
  struct Place {
    Buffer buffer;
    size_t last;  // step that uses it
  };
  const KernelModule& module_;
  const Level& level_;
  int64_t room_ = 0;
  std::vector<Touched> touched_;
  std::vector<Place> places_;
  std::map<std::string, std::string> names_;

  bool uses(size_t step, const Buffer& b) const {
    return touched_[step].read(b.name) || touched_[step].written(b.name);
  }
  size_t firstUse(const Buffer& b) const {
    size_t i = 0;
    while (i < touched_.size() && !uses(i, b)) i++;
    return i;
  }
  bool keep(const Buffer& b) {
    const size_t first = firstUse(b);
    size_t last = first;
    for (size_t i = first; i < touched_.size(); i++)
      if (uses(i, b)) last = i;
    for (Place& p : places_)
      if (p.last < first && p.buffer.type == b.type && p.buffer.shape == b.shape &&
          p.buffer.strides == b.strides) {
        names_[b.name] = p.buffer.name;
        p.last = last;
        return true;
      }
    const int64_t size = (bytesOf(b) + level_.align - 1) / level_.align * level_.align;
    if (size == 0 || size > room_) return false;
    room_ -= size;
    places_.push_back({b, last});
    places_.back().buffer.space = level_.name;
    if (level_.align > bytes(b.type)) places_.back().buffer.align = level_.align;
    return true;
  }
};

/// Brings once what a loop brings each time.
class Resident {
 public:
  Resident(const KernelModule& module, const Target& target) : module_(module), target_(target) {}

  void run(Block& kernel) {
    whole_ = &kernel;
    go(kernel, false);
  }

 private:
  struct Found {
    Stmt alloc, copy;
    std::string name;  ///< before it was found
  };
  const KernelModule& module_;
  const Target& target_;
  Block* whole_ = nullptr;
  int count_ = 0;

  void go(Block& block, bool inGrid) {
    for (Stmt& s : block) {
      if (BlockStmt* b = std::get_if<BlockStmt>(&s.kind)) go(b->body, inGrid);
      if (If* i = std::get_if<If>(&s.kind)) go(i->body, inGrid);
      For* f = std::get_if<For>(&s.kind);
      if (!f) continue;
      go(f->body, inGrid || f->mode == LoopMode::Parallel);
      if (inGrid && f->mode == LoopMode::Serial && asInteger(f->extent).value_or(2) > 1) hoist(s);
    }
  }
  void hoist(Stmt& loop) {
    for (;;) {
      const Stmt before = loop;
      For& f = std::get<For>(loop.kind);
      const Touched touched = touchedBy(f.body, module_);
      std::optional<Found> found = take(f.body, {f.var}, touched);
      if (!found) return;
      const Copy& c = *found->copy.as<Copy>();
      Block around = {found->alloc, found->copy, {Sync{Sync::Queue, c.queue, 0}, ""}};
      around.push_back(loop);
      loop = {BlockStmt{std::move(around)}, ""};
      if (fits()) {
        Block& body = std::get<BlockStmt>(loop.kind).body;
        return hoist(body.back());
      }
      loop = before;
      refused_.insert(found->name);
    }
  }
  std::set<std::string> refused_;

  bool fits() const {
    return std::ranges::all_of(target_.levels, [&](const Level& l) {
      return l.name == "main" || peakOf(*whole_, l.name) <= l.bytes;
    });
  }
  /// The first allocation that is filled by nothing but a copy that is the same in every round.
  std::optional<Found> take(Block& block, std::set<std::string> bound, const Touched& touched) {
    for (size_t i = 0; i < block.size(); i++) {
      if (const Alloc* a = block[i].as<Alloc>(); a && !refused_.count(a->buffer.name))
        if (const auto at = onlyCopy(block, *a, bound, touched)) {
          const std::string name = a->buffer.name;
          block = renamed(block, {{name, fmt::format("{}_kept{}", name, count_++)}});
          Found out{block[i], block[*at], name};
          block.erase(block.begin() + static_cast<long>(*at));
          block.erase(block.begin() + static_cast<long>(i));
          return out;
        }
      if (BlockStmt* b = std::get_if<BlockStmt>(&block[i].kind))
        if (auto found = take(b->body, bound, touched)) return found;
      if (For* f = std::get_if<For>(&block[i].kind)) {
        std::set<std::string> inner = bound;
        inner.insert(f->var);
        if (auto found = take(f->body, inner, touched)) return found;
      }
    }
    return {};
  }
  std::optional<size_t> onlyCopy(const Block& block, const Alloc& a,
                                 const std::set<std::string>& bound, const Touched& touched) const {
    if (a.buffer.space == "reg" || a.buffer.space == "main") return {};
    for (size_t i = 0; i < block.size(); i++) {
      const Copy* c = block[i].as<Copy>();
      if (!c || !c->to || c->to->buffer != a.buffer.name) continue;
      if (touched.written(c->from.buffer) || c->queue.empty() || !isSame(*c, bound)) return {};
      Block others = block;
      others.erase(others.begin() + static_cast<long>(i));
      if (touchedBy(others, module_).written(a.buffer.name)) return {};
      return i;
    }
    return {};
  }
  static bool isSame(const Copy& c, const std::set<std::string>& bound) {
    bool same = true;
    mapStmtExprs({c, ""}, [&](const Expr& e) {
      for (const std::string& v : freeVars(e)) same = same && !bound.count(v);
      same = same && loadsOf(e).empty();
      return e;
    });
    return same;
  }
};

}  // namespace

int64_t peakOf(const Block& block, const std::string& space) {
  int64_t held = 0, most = 0;
  for (const Stmt& s : block) {
    const Alloc* a = s.as<Alloc>();
    if (a && a->buffer.space == space) held += bytesOf(a->buffer);
    const Block* body = bodyOf(s);
    most = std::max(most, held + (body ? peakOf(*body, space) : 0));
  }
  return most;
}

void keepOnCore(KernelModule& module, const Target& target) {
  Block& body = module.kernels[0].body;
  if (target.cores == 1) body = OneTile(module, target).run(body);
  Resident(module, target).run(body);
}

}  // namespace tektite
