#include <algorithm>

#include "ir/facts.h"
#include "ir/kernel_walk.h"
#include "lower/kernel_pass.h"
#include "lower/kernel_rewrite.h"

namespace tektite {
namespace {

constexpr int64_t kMostStores = 256;  // written out, of all copies of a body together
constexpr int64_t kParts = 3;         // of a loop that is split, at most
constexpr int64_t kFar = 1 << 30;     // bounds that say something

/// Splits loops around vector loops where a guard changes its answer: the iterations for which all guards hold whatever happens inside come
/// without them, those before and behind keep theirs.
class Splitter {
 public:
  explicit Splitter(const Kernel& k) {
    for (const Dim& d : k.dims) ranges_[d.name] = {d.low, d.high};
  }

  Block block(const Block& in, bool insideGrid) {
    Block out;
    for (const Stmt& s : in) {
      const For* f = s.as<For>();
      const Block* body = bodyOf(s);
      if (!body) {
        out.push_back(s);
      } else if (f && insideGrid && splits(f->mode) && splittable(*body)) {
        for (Stmt& part : parts(s)) out.push_back(std::move(part));
      } else {
        out.push_back(within(s, insideGrid));
      }
    }
    return out;
  }
  bool changed() const { return changed_; }

 private:
  /// A comparison that holds from an iteration on, or before one.
  struct Atom {
    Expr condition, at;
    bool from;   ///< holds for variable >= at; else for variable < at
    bool exact;  ///< and for no other, whatever the loops inside do
  };

  /// The statement with what its body holds split.
  Stmt within(const Stmt& s, bool insideGrid) {
    const For* f = s.as<For>();
    if (!f) return withBody(s, block(*bodyOf(s), insideGrid));
    const auto outer =
        ranges_.find(f->var) == ranges_.end() ? std::nullopt : std::optional(ranges_[f->var]);
    ranges_[f->var] = {0, std::max<int64_t>(boundsOf(f->extent, ranges_).high - 1, 0)};
    Stmt out = withBody(s, block(f->body, insideGrid || f->mode == LoopMode::Parallel));
    if (outer)
      ranges_[f->var] = *outer;
    else
      ranges_.erase(f->var);
    return out;
  }

  static bool splits(LoopMode m) { return m == LoopMode::Serial || m == LoopMode::Unroll; }
  /// The loops of one nest (what holds scratch is around several), with lanes inside, not too long to be written several times.
  bool splittable(const Block& body) const {
    bool lanes = false;
    return storesOf(body, lanes) * copies_ * kParts <= kMostStores && lanes;
  }
  static int64_t storesOf(const Block& body, bool& lanes) {
    int64_t n = 0;
    for (const Stmt& s : body) {
      const For* f = s.as<For>();
      if (const Buffer* b = allocOf(s); b && b->space != "reg") return kMostStores + 1;
      if (s.as<Sync>() || s.as<Intrin>() || (s.as<Copy>() && s.as<Copy>()->to) ||
          (f && f->mode >= LoopMode::Warp))
        return kMostStores + 1;
      lanes = lanes || (f && f->mode == LoopMode::Vector);
      n += s.as<Store>() != nullptr;
      const bool copies = f && f->mode == LoopMode::Unroll;
      if (const Block* inner = bodyOf(s))
        n += storesOf(*inner, lanes) * (copies ? asInteger(f->extent).value_or(1) : 1);
      if (n > kMostStores) return n;
    }
    return n;
  }

  Block parts(const Stmt& s) {
    const For& f = *s.as<For>();
    const std::vector<Atom> atoms = atomsOf(f);
    Expr first(0), last = f.extent;
    for (const Atom& a : atoms)
      (a.from ? first : last) = a.from ? max(first, a.at) : min(last, a.at);
    first = simplify(min(first, f.extent), ranges_);
    last = simplify(max(last, first), ranges_);
    const Interval n = boundsOf(f.extent, ranges_), inside = boundsOf(last - first, ranges_);
    if (atoms.empty() || inside.low * 2 < n.high) return {within(s, true)};
    changed_ = true;
    copies_ *= kParts;
    Block out;
    const auto add = [&](const Expr& start, const Expr& end, const std::vector<Atom>& known,
                         bool holds) {
      const Expr extent = simplify(end - start, ranges_);
      if (isConstant(extent, 0)) return;
      Block body = replaced(f.body, known, holds);
      if (!isConstant(start, 0)) body = moved(body, f.var, start);
      out.push_back(within(
          {For{f.var, extent, f.mode, std::move(body)}, out.empty() ? s.comment : ""}, true));
    };
    add(0, first, deciding(atoms, true), false);
    add(first, last, atoms, true);
    add(last, f.extent, deciding(atoms, false), false);
    copies_ /= kParts;
    return out;
  }

  /// The atoms that fail before the first iteration of the middle, or from its last one on.
  static std::vector<Atom> deciding(const std::vector<Atom>& atoms, bool from) {
    std::vector<Atom> out;
    for (const Atom& a : atoms)
      if (a.from == from) out.push_back(a);
    const bool one =
        std::ranges::all_of(out, [&](const Atom& a) { return a.exact && a.at == out.front().at; });
    return one ? out : std::vector<Atom>();
  }

  std::vector<Atom> atomsOf(const For& f) {
    Ranges inner = f.mode == LoopMode::Unroll ? ranges_ : Ranges();  // where the worst value counts
    inner.erase(f.var);
    rangesInside(f.body, inner);
    std::vector<Atom> out;
    Path path;
    walk(f.body, path,
         {[&](const Stmt& s, Path&) {
            if (const If* i = s.as<If>()) collect(i->condition, f, inner, out);
            eachExpr(s, [&](const Expr& e) {
              visit(e, [&](const Expr& x) {
                if (const Apply* a = x.as<Apply>(); a && a->op == Op::Select)
                  collect(a->args[0], f, inner, out);
              });
            });
          },
          nullptr});
    return out;
  }
  void rangesInside(const Block& body, Ranges& inner) const {
    for (const Stmt& s : body) {
      if (const For* f = s.as<For>()) {
        const int64_t most = std::max<int64_t>(boundsOf(f->extent, ranges_).high - 1, 0);
        const bool lanes = f->mode == LoopMode::Vector;  // what steers them is a mask: no bound
        const auto [at, isNew] = inner.try_emplace(f->var, Interval{lanes ? -2 * kFar : 0, most});
        at->second.high = std::max(at->second.high, lanes ? 2 * kFar : most);
      }
      if (const Block* more = bodyOf(s)) rangesInside(*more, inner);
    }
  }

  void collect(const Expr& condition, const For& f, const Ranges& inner, std::vector<Atom>& out) {
    const Apply* a = condition.as<Apply>();
    if (!a) return;
    if (a->op == Op::And) {
      for (const Expr& e : a->args) collect(e, f, inner, out);
      return;
    }
    if ((a->op != Op::Le && a->op != Op::Lt) || a->args[0].type() != DType::I64) return;
    if (std::ranges::any_of(out, [&](const Atom& x) { return x.condition == condition; })) return;
    Linear rest = plus(linearOf(a->args[1]), linearOf(a->args[0]), -1);  // 0 <= it, or 0 <
    if (a->op == Op::Lt) rest.constant--;
    const int64_t by = rest.coefficientOf(f.var);
    if (by == 0) return;
    bool exact = true;
    Linear outside = linearConstant(rest.constant);
    for (const auto& [term, times] : rest.terms) {
      if (term.as<Var>() && term.as<Var>()->name == f.var) continue;
      const auto names = freeVars(term);
      const bool isInner =
          std::ranges::any_of(names, [&](const std::string& v) { return inner.count(v) != 0; });
      if (!loadsOf(term).empty() || std::ranges::count(names, f.var)) return;
      if (!isInner) {
        outside = plus(outside, linearTerm(term, times));
        continue;
      }
      const Interval bounds = boundsOf(term, inner);
      const int64_t worst = times > 0 ? bounds.low : bounds.high;
      if (std::abs(worst) > kFar) return;
      exact = false;
      outside.constant += times * worst;
    }
    const Expr known = toExpr(outside);
    const Expr at =
        by > 0 ? floorDiv(Expr(by - 1) - known, Expr(by)) : floorDiv(known, Expr(-by)) + Expr(1);
    out.push_back({condition, simplify(at, ranges_), by > 0, exact});
  }

  static Block replaced(const Block& body, const std::vector<Atom>& atoms, bool holds) {
    if (atoms.empty()) return body;
    return mapped(body, [&](const Expr& e) {
      return rewrite(e, [&](const Expr& x) -> Expr {
        for (const Atom& a : atoms)
          if (x == a.condition) return boolean(holds);
        return {};
      });
    });
  }
  static Block moved(const Block& body, const std::string& variable, const Expr& by) {
    const std::unordered_map<std::string, Expr> to = {{variable, var(variable) + by}};
    return mapped(body, [&](const Expr& e) { return substitute(e, to); });
  }
  static Block mapped(const Block& body, const std::function<Expr(const Expr&)>& map) {
    Block out;
    for (const Stmt& s : body) {
      Stmt now = mapStmtExprs(s, map);
      if (const Block* inner = bodyOf(now)) now = withBody(now, mapped(*inner, map));
      out.push_back(std::move(now));
    }
    return out;
  }

  Ranges ranges_;
  int64_t copies_ = 1;  // of what is looked at, by the loops around it that were split
  bool changed_ = false;
};

Kernel splitGuards(const Kernel& in, const KernelModule& module) {
  Splitter splitter(in);
  Kernel out = in;
  out.body = splitter.block(in.body, false);
  return splitter.changed() ? findKernelPass("simplify-kernel")->run(out, module) : in;
}

const KernelPass pass{
    "split-guards",
    "take the iterations for which a loop's guards hold apart from those at its ends", splitGuards};

}  // namespace
}  // namespace tektite
