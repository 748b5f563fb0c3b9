#include <algorithm>
#include <map>
#include <unordered_set>

#include "ir/assumptions.h"
#include "ir/kernel_walk.h"
#include "lower/kernel_pass.h"
#include "lower/kernel_rewrite.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kLeastSlots = 2;  // cheaper expressions stay: a register costs as much

/// Takes what doesn't change in a loop out of it, into a register in front of the loop. Only what every iteration computes
/// anyway, of loops that run: nothing is touched that was not.
class Hoister {
 public:
  Hoister(const Kernel& k, const KernelModule& module) : module_(module) {
    for (const Dim& d : k.dims) known_.range(d.name, d.low, d.high);
    for (const Param& p : k.params) {
      taken_.insert(p.buffer.name);
      if (!p.buffer.alias.empty()) aliases_[p.buffer.name] = p.buffer.alias;
    }
    Path path;
    walk(k.body, path,
         {[&](const Stmt& s, Path&) {
            if (const Buffer* b = allocOf(s)) taken_.insert(b->name);
            if (const For* f = s.as<For>()) taken_.insert(f->var);
          },
          nullptr});
  }

  Block block(const Block& in, bool insideGrid) {
    Block out;
    for (const Stmt& s : in) {
      const Block* body = bodyOf(s);
      if (!body) {
        out.push_back(s);
        continue;
      }
      Stmt now = s;
      const For* f = s.as<For>();
      if (f && insideGrid && f->mode < LoopMode::Warp && !hasThreads(*body) &&
          known_.proves(le(Expr(1), f->extent)))
        hoist(now, out);
      const size_t mark = known_.mark();
      if (f) known_.loop(f->var, f->extent);
      if (const If* i = s.as<If>()) known_.assume(i->condition);
      now = withBody(now, block(*bodyOf(now), insideGrid || (f && f->mode == LoopMode::Parallel &&
                                                             !isGridOnly(*f))));
      known_.rewind(mark);
      out.push_back(std::move(now));
    }
    return out;
  }

 private:
  static bool isParallel(const Stmt& s) {
    return s.as<For>() && s.as<For>()->mode == LoopMode::Parallel;
  }
  /// A loop of a grid whose body is the next loop of it.
  static bool isGridOnly(const For& f) { return f.body.size() == 1 && isParallel(f.body[0]); }
  static bool hasThreads(const Block& b) {
    return std::any_of(b.begin(), b.end(), [](const Stmt& s) {
      const For* f = s.as<For>();
      return (f && f->mode >= LoopMode::Warp) || (bodyOf(s) && hasThreads(*bodyOf(s)));
    });
  }

  /// Appends registers and their values to `before`, and lets the loop read them.
  void hoist(Stmt& loop, Block& before) {
    For& f = std::get<For>(loop.kind);
    std::unordered_set<std::string> bound = {f.var};
    waits_ = false;
    Path path;
    walk(f.body, path,
         {[&](const Stmt& s, Path&) {
            waits_ |= s.as<Sync>() != nullptr;
            if (const Buffer* b = allocOf(s)) bound.insert(b->name);
            if (const For* inner = s.as<For>()) bound.insert(inner->var);
            if (const Copy* c = s.as<Copy>())
              for (const CopyAxis& a : c->axes) bound.insert(a.var);
          },
          nullptr});
    const Touched touched = touchedBy(f.body, module_);
    std::vector<Expr> found;
    collect(f.body, touched, bound, found);
    for (const Expr& e : found) {
      Buffer b;
      b.name = freshName();
      b.type = e.type();
      b.space = "reg";
      before.push_back({Alloc{b}, ""});
      before.push_back({Store{{{b.name, {}}}, "", {e}, false}, ""});
      const Expr value = load(b.name, e.type(), {});
      f.body = replaced(f.body, e, value);
    }
  }

  /// Invariant expressions of the stores that run in every iteration; the largest ones.
  void collect(const Block& body, const Touched& touched,
               const std::unordered_set<std::string>& bound, std::vector<Expr>& found) {
    for (const Stmt& s : body) {
      if (const Store* t = s.as<Store>())
        for (const Expr& e : t->values) largest(e, touched, bound, found);
      if (const BlockStmt* b = s.as<BlockStmt>()) collect(b->body, touched, bound, found);
      const For* f = s.as<For>();
      if (f && f->mode < LoopMode::Warp && asInteger(f->extent).value_or(0) > 0)
        collect(f->body, touched, bound, found);
    }
  }

  void largest(const Expr& e, const Touched& touched, const std::unordered_set<std::string>& bound,
               std::vector<Expr>& found) {
    const Apply* a = e.as<Apply>();
    const Cast* c = e.as<Cast>();
    if ((a || c) && e.type() != DType::I64 && e.type() != DType::Bool &&
        slotsOf(e) >= kLeastSlots && invariant(e, touched, bound)) {
      if (std::find(found.begin(), found.end(), e) == found.end()) found.push_back(e);
      return;
    }
    if (c) largest(c->arg, touched, bound, found);
    if (!a) return;
    if (a->op == Op::Select)
      return largest(a->args[0], touched, bound, found);  // its arms are guarded
    for (const Expr& x : a->args) largest(x, touched, bound, found);
  }

  bool invariant(const Expr& e, const Touched& touched,
                 const std::unordered_set<std::string>& bound) const {
    bool ok = true;
    visit(e, [&](const Expr& x) {
      if (const Var* v = x.as<Var>()) ok &= !bound.count(v->name);
      if (const Load* l = x.as<Load>())
        ok &= !waits_ && !bound.count(l->buffer) && !written(l->buffer, touched);
    });
    return ok;
  }

  bool written(const std::string& buffer, const Touched& touched) const {
    if (touched.written(buffer)) return true;
    const auto alias = aliases_.find(buffer);
    if (alias == aliases_.end()) return false;
    for (const auto& [name, c] : aliases_)
      if (c == alias->second && touched.written(name)) return true;
    return false;
  }

  static Block replaced(const Block& body, const Expr& what, const Expr& by) {
    Block out;
    for (const Stmt& s : body) {
      Stmt now = mapStmtExprs(s, [&](const Expr& e) {
        return rewrite(e, [&](const Expr& x) { return x == what ? by : Expr(); });
      });
      if (const Block* inner = bodyOf(now)) now = withBody(now, replaced(*inner, what, by));
      out.push_back(std::move(now));
    }
    return out;
  }

  std::string freshName() {
    for (;; next_++)
      if (taken_.insert(fmt::format("h{}", next_)).second) return fmt::format("h{}", next_++);
  }

  const KernelModule& module_;
  Assumptions known_;
  std::map<std::string, std::string> aliases_;
  std::unordered_set<std::string> taken_;
  int next_ = 0;
  bool waits_ = false;  // what the loop reads may arrive in it
};

Kernel hoistInvariants(const Kernel& in, const KernelModule& module) {
  Kernel out = in;
  out.body = Hoister(in, module).block(in.body, false);
  return out;
}

const KernelPass pass{"hoist", "compute in front of a loop what doesn't change in it",
                      hoistInvariants};

}  // namespace
}  // namespace tektite
