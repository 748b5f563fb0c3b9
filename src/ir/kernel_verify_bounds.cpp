#include <unordered_set>

#include "ir/assumptions.h"
#include "ir/kernel_rules.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

/// Proves that what a kernel touches is in range, from loops, dims, guards and the arms of selects.
class Bounds {
 public:
  explicit Bounds(const Subject& s) : s_(s) {
    for (const Dim& d : s.dims) known_.range(d.name, d.low, d.high);
  }

  void run() {
    Path path = s_.path();
    std::vector<size_t> marks;
    walk(s_.body, path,
         {[&](const Stmt& at, Path& p) {
            seen_.clear();
            statement(at, p);
            marks.push_back(known_.mark());
            if (const For* f = at.as<For>()) known_.loop(f->var, f->extent);
            if (const If* i = at.as<If>()) known_.assume(i->condition);
          },
          [&](const Stmt&, Path&) {
            known_.rewind(marks.back());
            marks.pop_back();
          }});
  }

 private:
  void statement(const Stmt& at, Path& p) {
    std::visit(overloaded{[](const BlockStmt&) {}, [](const Alloc&) {}, [](const Sync&) {},
                          [&](const For& f) { touches(at, f.extent, p); },
                          [&](const If& i) { touches(at, i.condition, p); },
                          [&](const Store& t) {
                            for (const Ref& r : t.targets) element(at, r, p);
                            for (const Expr& e : t.values) touches(at, e, p);
                          },
                          [&](const Copy& c) { copy(at, c, p); },
                          [&](const Intrin& i) { call(at, i, p); }},
               at.kind);
  }

  /// A ref or load, and what its indices touch.
  void element(const Stmt& at, const Ref& r, const Path& p) {
    const Buffer& b = *p.buffer(r.buffer)->buffer;
    for (size_t d = 0; d < r.index.size(); d++) {
      touches(at, r.index[d], p);
      within(at, 4, r.index[d], Expr(1), b, d);
    }
  }

  /// 0 <= index, index + size <= the axis.
  void within(const Stmt& at, int rule, const Expr& index, const Expr& size, const Buffer& b,
              size_t axis) {
    const bool low = known_.proves(le(Expr(0), index));
    if (low && known_.proves(le(index + size, b.shape[axis]))) return;
    if (known_.contradictory()) return;  // it is never reached
    if (!low)
      s_.report(rule, at,
                fmt::format("{}: index {} of axis {} isn't proved to be 0 or more", b.name,
                            toText(index), axis));
    else
      s_.report(rule, at,
                fmt::format("{}: index {} of axis {} isn't proved to be below {}", b.name,
                            toText(index + size + Expr(-1)), axis, toText(b.shape[axis])));
  }

  bool loads(const Expr& e) {
    const auto [it, fresh] = hasLoad_.try_emplace(e.hash(), false);
    if (!fresh) return it->second;
    const bool found = std::visit(
        overloaded{[](const Imm&) { return false; }, [](const Var&) { return false; },
                   [](const Load&) { return true; }, [&](const Cast& c) { return loads(c.arg); },
                   [&](const Apply& a) {
                     for (const Expr& x : a.args)
                       if (loads(x)) return true;
                     return false;
                   }},
        e->kind);
    return hasLoad_[e.hash()] = found;
  }

  /// Everything that an expression may read; the arms of a select under its condition.
  void touches(const Stmt& at, const Expr& e, const Path& p) {
    if (!loads(e) || !seen_.insert(e.hash()).second) return;
    std::visit(overloaded{[](const Imm&) {}, [](const Var&) {},
                          [&](const Load& l) { element(at, {l.buffer, l.index}, p); },
                          [&](const Cast& c) { touches(at, c.arg, p); },
                          [&](const Apply& a) {
                            if (a.op != Op::Select) {
                              for (const Expr& x : a.args) touches(at, x, p);
                              return;
                            }
                            touches(at, a.args[0], p);
                            for (int arm : {1, 2}) {
                              const size_t before = known_.mark();
                              const auto seenOutside = seen_;
                              known_.assume(a.args[0], arm == 1);
                              if (!known_.contradictory()) touches(at, a.args[arm], p);
                              known_.rewind(before);
                              seen_ = seenOutside;
                            }
                          }},
               e->kind);
  }

  void copy(const Stmt& at, const Copy& c, Path& p) {
    for (const CopyAxis& a : c.axes) touches(at, a.extent, p);
    if (!c.to) return;  // a prefetch has no bounds
    const size_t before = known_.mark(), names = p.declareAxes(c);
    for (const CopyAxis& a : c.axes) known_.loop(a.var, a.extent);
    if (!c.fill) element(at, c.from, p);
    element(at, *c.to, p);
    known_.rewind(before);
    p.names.resize(names);
  }

  void call(const Stmt& at, const Intrin& i, const Path& p) {
    const IntrinDef& def = *s_.module.intrin(i.name);
    std::unordered_map<std::string, Expr> dims;
    size_t next = 0;
    for (size_t k = 0; k < i.args.size(); k++) {
      if (!def.isDim[k]) continue;
      const Dim& d = def.dims[next++];
      const Expr& e = dims[d.name] = std::get<Expr>(i.args[k].value);
      touches(at, e, p);
      if (!known_.proves(logicalAnd(le(Expr(d.low), e), le(e, Expr(d.high)))))
        s_.report(8, at,
                  fmt::format("{} isn't proved to be in {}..{} for '{}'", toText(e), d.low, d.high,
                              d.name));
    }
    next = 0;
    for (size_t k = 0; k < i.args.size(); k++) {
      if (def.isDim[k]) continue;
      const Ref& r = std::get<Ref>(i.args[k].value);
      const Buffer &b = *p.buffer(r.buffer)->buffer, &tile = def.params[next++].buffer;
      const size_t lead = b.shape.size() - tile.shape.size();
      for (size_t d = 0; d < b.shape.size(); d++) {
        touches(at, r.index[d], p);
        within(at, 8, r.index[d], d < lead ? Expr(1) : substitute(tile.shape[d - lead], dims), b,
               d);
      }
    }
  }

  const Subject& s_;
  Assumptions known_;
  std::unordered_set<Hash> seen_;
  std::unordered_map<Hash, bool> hasLoad_;
};

}  // namespace

void checkBounds(const Subject& s) { Bounds(s).run(); }

}  // namespace tektite
