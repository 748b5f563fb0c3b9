#include "fusion/streaming.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fusion/region.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How a value changes when carried maxima do, from `before` to `now`: by the factor exp(k (now - before)) for every term of
/// `scales`, or by k (now - before), added, for every term of `shifts`. None of either: not at all.
struct Change {
  struct Term {
    std::string carried;      // the maximum's buffer
    std::vector<Expr> index;  // over the stage's axes
    double k;
  };
  std::vector<Term> shifts, scales;
  bool zero = false;  // the value is 0: any factor will do
  bool none() const { return shifts.empty() && scales.empty(); }
};
bool sameTerms(const std::vector<Change::Term>& a, const std::vector<Change::Term>& b) {
  return std::ranges::equal(a, b, [](const Change::Term& x, const Change::Term& y) {
    return x.carried == y.carried && x.index == y.index && x.k == y.k;
  });
}

/// A buffer that has an element for every step of the walk.
struct Along {
  std::vector<Expr> index;  // where its stage stores, over `axes`
  std::vector<StageAxis> axes;
  size_t dim = 0;  // the one that the walk runs along
  Change change;
};

/// One accumulator's memory.
struct Carried {
  Combine combine;
  std::vector<std::string> names;  // of its values in the stage's outer stores
  std::vector<Expr> index;         // of their buffers, over the stage's axes
  TensorType type;                 // but for the dtype
  Change change;
  std::string run(size_t m) const { return "run_" + names[m]; }
};

class Streaming {
 public:
  explicit Streaming(const StageSet& set) : in_(set) {}

  std::optional<Streamed> run() {
    if (in_.scatters || !findAxis()) return {};
    for (size_t s = 0; s < in_.stages.size(); s++)
      if (!(axis_[s] < 0 ? beside(s) : inWalk(s))) return {};
    std::erase_if(maxima_, [&](const auto& m) { return !waitedFor_.count(m.first); });
    if (maxima_.empty()) return {};  // nothing waits for another reduction
    for (size_t s = 0; s < in_.stages.size(); s++)
      if (axis_[s] < 0 && after_[s])
        for (const Expr& l : loadsOf(in_.stages[s])) readAfter_.insert(l.as<Load>()->buffer);
    return build();
  }

 private:
  const StageSet& in_;
  std::vector<int> axis_;    // [stage] the walked axis, or -1
  std::vector<bool> after_;  // [stage]
  int root_ = -1;
  std::map<std::string, Along> along_;
  std::set<std::string> results_;                   // buffers that are known after the walk only
  std::map<std::string, size_t> maxima_;            // in-walk values of results: the stage of each
  std::map<size_t, std::vector<Carried>> carried_;  // [stage]
  std::set<std::pair<std::string, double>> fixes_;  // factors exp(k (now - before)) in use
  std::set<std::string> waitedFor_;                 // maxima that are read in the walk
  std::set<std::string> readAfter_;

  const PlanBuffer& bufferOf(const std::string& name) const {
    return *std::ranges::find(in_.buffers, name, &PlanBuffer::name);
  }
  bool isOutput(const std::string& name) const { return bufferOf(name).kind == PlanBuffer::Output; }

  /// The longest reduce axis of the last stage that has one, and the axes of other stages that are the same.
  bool findAxis() {
    GroupShape g = shapeOf(in_);
    int longest = -1;
    for (size_t s = 0; s < in_.stages.size(); s++) {
      const std::vector<StageAxis>& axes = in_.stages[s].axes;
      if (std::ranges::none_of(axes, &StageAxis::reduce)) continue;
      root_ = static_cast<int>(s), longest = -1;
      for (size_t a = 0; a < axes.size(); a++)
        if (axes[a].reduce && (longest < 0 || axes[a].extent > axes[longest].extent))
          longest = static_cast<int>(a);
    }
    if (root_ < 0) return false;
    std::vector<int> axes = spaceAxes(in_.stages[root_]);
    if (axes.size() >= kMostTiles) return false;
    axes.push_back(longest);
    setRoot(g, root_, axes);
    const int walked = static_cast<int>(axes.size()) - 1;
    int reducing = 0;
    for (size_t s = 0; s < in_.stages.size(); s++) {
      const auto at = std::ranges::find(g.follows[s], walked);
      axis_.push_back(at == g.follows[s].end() ? -1 : static_cast<int>(at - g.follows[s].begin()));
      reducing += axis_[s] >= 0 && in_.stages[s].axes[axis_[s]].reduce;
    }
    after_.assign(in_.stages.size(), false);
    return reducing > 1;
  }
  static std::vector<int> spaceAxes(const Stage& s) {
    std::vector<int> out;
    for (size_t a = 0; a < s.axes.size(); a++)
      if (!s.axes[a].reduce) out.push_back(static_cast<int>(a));
    return out;
  }

  // ---- what may be walked

  /// A stage without the axis runs before the walk, or after it where it reads what the walk makes.
  bool beside(size_t s) {
    for (const Expr& l : loadsOf(in_.stages[s])) {
      if (along_.count(l.as<Load>()->buffer)) return false;
      after_[s] = after_[s] || results_.count(l.as<Load>()->buffer);
    }
    if (after_[s])
      for (const auto* stores : {&in_.stages[s].inner, &in_.stages[s].outer})
        for (const StageStore& store : *stores) results_.insert(store.buffer);
    return true;
  }

  bool inWalk(size_t s) {
    const Stage& stage = in_.stages[s];
    const bool reduces = stage.axes[axis_[s]].reduce;
    for (const StageStore& store : stage.inner)
      if (!storeAlong(s, store)) return false;
    std::vector<Carried> carried;
    for (const Accumulator& a : stage.accumulators) {
      Carried c{a.combine, a.names, {}, {}, {}};
      for (const Expr& value : a.values) {
        const std::optional<Change> change = changeOf(value, s);
        if (!change || !change->shifts.empty() || (!change->none() && a.combine.name != "sum"))
          return false;
        if (!change->none()) {
          if (a.values.size() != 1 || !reduces || !leavesSum(*change, stage)) return false;
          c.change = *change;
        }
      }
      carried.push_back(std::move(c));
    }
    if (!reduces) {
      for (const StageStore& store : stage.outer)
        if (!storeAlong(s, store)) return false;
      return true;
    }
    for (const StageStore& store : stage.outer)
      if (!result(s, store, carried)) return false;
    for (const Carried& c : carried) {
      if (c.index.empty() && !spaceAxes(stage).empty()) return false;
      for (const Change::Term& t : c.change.scales) fixes_.insert({t.carried, t.k});
    }
    carried_[s] = std::move(carried);
    return true;
  }
  /// Is the factor the same for all that the stage adds up?
  bool leavesSum(const Change& change, const Stage& stage) const {
    for (const Change::Term& t : change.scales)
      for (const Expr& e : t.index)
        for (const std::string& v : freeVars(e))
          if (std::ranges::any_of(stage.axes,
                                  [&](const StageAxis& a) { return a.reduce && a.var == v; }))
            return false;
    return true;
  }
  /// A value at every step of the walk: scratch may change with the carried ones, a result may not.
  bool storeAlong(size_t s, const StageStore& store) {
    const Stage& stage = in_.stages[s];
    const std::optional<Change> change = changeOf(store.value, s);
    if (!change || !change->shifts.empty() || store.guard || !store.combine.empty()) return false;
    if (isOutput(store.buffer)) return change->none();
    Along along{store.index, stage.axes, store.index.size(), *change};
    for (size_t d = 0; d < store.index.size(); d++) {
      const Var* v = store.index[d].as<Var>();
      if (!v && !isConstant(store.index[d], 0)) return false;
      if (v && v->name == stage.axes[axis_[s]].var) along.dim = d;
    }
    if (along.dim == store.index.size()) return false;
    along_[store.buffer] = std::move(along);
    return true;
  }
  /// What follows from reductions over the axis: known after the walk; a maximum as it is may be read on the way, too.
  bool result(size_t s, const StageStore& store, std::vector<Carried>& carried) {
    const Stage& stage = in_.stages[s];
    if (store.guard || !store.combine.empty() || !readsResults(store.value)) return false;
    const std::vector<std::string> vars = freeVars(store.value);
    std::set<std::string> indexed;
    for (const Expr& e : store.index) {
      const Var* v = e.as<Var>();
      if (!v && !isConstant(e, 0)) return false;
      if (v) indexed.insert(v->name);
    }
    for (int a : spaceAxes(stage))
      if (!indexed.count(stage.axes[a].var)) return false;
    for (Carried& c : carried)
      for (const std::string& name : c.names)
        if (std::ranges::count(vars, name) && c.index.empty()) {
          c.index = store.index;
          c.type = bufferOf(store.buffer).type;
        }
    results_.insert(store.buffer);
    const Var* plain = store.value.as<Var>();
    for (const Accumulator& a : stage.accumulators)
      if (plain && a.names.size() == 1 && a.names[0] == plain->name && a.combine.name == "max" &&
          isFloat(store.value.type()))
        maxima_[store.buffer] = s;
    return true;
  }
  /// What it loads, it loads after the walk.
  bool readsResults(const Expr& e) {
    for (const Expr& l : loadsOf(e)) {
      if (along_.count(l.as<Load>()->buffer)) return false;
      readAfter_.insert(l.as<Load>()->buffer);
    }
    return true;
  }

  // ---- the algebra

  std::optional<Change> changeOf(const Expr& e, size_t s) {
    memo_.clear();
    return change(e, s);
  }
  std::unordered_map<Hash, std::optional<Change>> memo_;
  const std::optional<Change>& change(const Expr& e, size_t s) {
    if (const auto it = memo_.find(e.hash()); it != memo_.end()) return it->second;
    std::optional<Change> c =
        std::visit(overloaded{[](const Imm& i) -> std::optional<Change> {
                                return Change{{}, {}, i.real == 0 && i.integer == 0};
                              },
                              [](const Var&) -> std::optional<Change> { return Change{}; },
                              [&](const Load& l) { return ofLoad(l, s); },
                              [&](const Cast& x) { return fixed({x.arg}, s); },
                              [&](const Apply& a) { return ofApply(a, s); }},
                   e->kind);
    return memo_[e.hash()] = std::move(c);
  }
  std::optional<Change> fixed(const std::vector<Expr>& args, size_t s) {
    for (const Expr& a : args)
      if (const auto& c = change(a, s); !c || !c->none()) return {};
    return Change{};
  }
  std::optional<Change> ofLoad(const Load& l, size_t s) {
    if (!fixed(l.index, s)) return {};
    if (const auto it = along_.find(l.buffer); it != along_.end()) {
      const Along& from = it->second;
      const Var* at = l.index[from.dim].as<Var>();
      if (!at || at->name != in_.stages[s].axes[axis_[s]].var) return {};
      Change c = from.change;
      std::unordered_map<std::string, Expr> to;
      for (size_t d = 0; d < l.index.size(); d++)
        if (const Var* v = from.index[d].as<Var>()) to[v->name] = l.index[d];
      for (Change::Term& t : c.scales)
        for (Expr& e : t.index) e = substitute(e, to);
      return c;
    }
    if (!results_.count(l.buffer)) return Change{};
    if (!maxima_.count(l.buffer)) return {};
    waitedFor_.insert(l.buffer);
    return Change{{{l.buffer, l.index, 1}}, {}};
  }
  std::optional<Change> ofApply(const Apply& a, size_t s) {
    std::vector<Change> args;
    for (const Expr& e : a.args) {
      const auto& c = change(e, s);
      if (!c) return {};
      args.push_back(*c);
    }
    if (std::ranges::all_of(args, &Change::none)) {
      const bool zero = a.op == Op::Mul && (args[0].zero || args[1].zero);
      return Change{{}, {}, zero};
    }
    switch (a.op) {
      case Op::Exp: return ofExp(args[0]);
      case Op::Neg: return scaled(args[0], -1);
      case Op::Add:
      case Op::Sub: return ofSum(args[0], args[1], a.op == Op::Sub ? -1 : 1);
      case Op::Mul:
        if (args[0].shifts.empty() && args[1].shifts.empty()) {
          Change out{{}, args[0].scales, false};
          out.scales.insert(out.scales.end(), args[1].scales.begin(), args[1].scales.end());
          return out;
        }
        if (const Imm* k = a.args[1].as<Imm>()) return scaled(args[0], k->real);
        if (const Imm* k = a.args[0].as<Imm>()) return scaled(args[1], k->real);
        return {};
      case Op::Div:
        return args[1].none() && args[0].shifts.empty() ? std::optional(args[0]) : std::nullopt;
      case Op::Select: return args[0].none() ? either(args[1], args[2]) : std::nullopt;
      default: return {};
    }
  }
  /// Of exp(x - m) only where m is subtracted: its argument stays at most 0 then.
  static std::optional<Change> ofExp(const Change& c) {
    if (!c.scales.empty() || std::ranges::any_of(c.shifts, [](const auto& t) { return t.k >= 0; }))
      return {};
    return Change{{}, c.shifts, false};
  }
  static std::optional<Change> scaled(Change c, double k) {
    for (Change::Term& t : c.shifts) t.k *= k;
    return c;
  }
  static std::optional<Change> ofSum(const Change& a, const Change& b, double sign) {
    if (a.scales.empty() && b.scales.empty()) {
      Change out = a;
      for (Change::Term t : b.shifts) t.k *= sign, out.shifts.push_back(std::move(t));
      return out;
    }
    return either(a, b);
  }
  /// Two values that change by the same factor.
  static std::optional<Change> either(const Change& a, const Change& b) {
    if (!a.shifts.empty() || !b.shifts.empty()) return {};
    if (a.zero) return b;
    if (b.zero || sameTerms(a.scales, b.scales)) return a;
    return {};
  }

  // ---- the new stages

  Expr identityOf(const Carried& c, size_t m) const { return c.combine.identity[m]; }
  static std::string nowName(const std::string& maximum) { return "now_" + maximum; }
  std::string fixName(const std::string& maximum, double k) const {
    size_t number = 0;
    for (const auto& [name, factor] : fixes_)
      if (name == maximum && factor < k) number++;
    return fmt::format("fix{}_{}", number, maximum);
  }

  Streamed build() {
    Streamed out{{}, -1, {}};
    std::vector<Stage> walk, behind;
    for (size_t s = 0; s < in_.stages.size(); s++) {
      const Stage& stage = in_.stages[s];
      if (axis_[s] < 0) {
        (after_[s] ? behind : out.set.stages).push_back(stage);
        if (after_[s]) behind.back().after = true;
        continue;
      }
      if (const auto it = carried_.find(s); it != carried_.end()) {
        out.set.stages.push_back(beginning(s, it->second));
        if (auto last = ending(s, it->second)) behind.push_back(std::move(*last));
        walk.push_back(step(s, it->second));
      } else {
        walk.push_back(readingNow(stage));
      }
      if (static_cast<int>(s) == root_) out.root = static_cast<int>(walk.size()) - 1;
    }
    out.root += static_cast<int>(out.set.stages.size());
    for (std::vector<Stage>* part : {&walk, &behind})
      for (Stage& s : *part) out.set.stages.push_back(std::move(s));
    out.rootAxes = spaceAxes(in_.stages[root_]);
    out.rootAxes.push_back(axis_[root_]);
    addBuffers(out.set);
    return out;
  }
  /// In the walk a maximum is what it is so far.
  Stage readingNow(const Stage& s) const {
    return mapped(s, [&](const Expr& root) {
      return rewrite(root, [&](const Expr& e) -> Expr {
        const Load* l = e.as<Load>();
        return l && maxima_.count(l->buffer) ? load(nowName(l->buffer), e.type(), l->index)
                                             : Expr();
      });
    });
  }
  Stage onSpace(size_t s) const {
    Stage out;
    out.comment = in_.stages[s].comment;
    for (int a : spaceAxes(in_.stages[s])) out.axes.push_back(in_.stages[s].axes[a]);
    return out;
  }
  /// The maxima that this stage makes and others read in the walk.
  std::vector<std::string> maximaOf(size_t s) const {
    std::vector<std::string> out;
    for (const auto& [name, stage] : maxima_)
      if (stage == s) out.push_back(name);
    return out;
  }
  const Carried& carriedOf(size_t s, const std::string& maximum) const {
    for (const StageStore& store : in_.stages[s].outer)
      if (store.buffer == maximum)
        for (const Carried& c : carried_.at(s))
          if (c.names[0] == store.value.as<Var>()->name) return c;
    TEKTITE_CHECK(false, "no accumulator of {}", maximum);
  }
  Stage beginning(size_t s, const std::vector<Carried>& carried) const {
    Stage first = onSpace(s);
    for (const Carried& c : carried)
      for (size_t m = 0; m < c.names.size(); m++)
        first.inner.push_back({c.run(m), c.index, identityOf(c, m), "", {}});
    for (const std::string& maximum : maximaOf(s)) {
      const Carried& c = carriedOf(s, maximum);
      first.inner.push_back({nowName(maximum), c.index, imm(c.combine.types[0], 0), "", {}});
    }
    return first;
  }
  /// One piece: its own reduction joined with what is carried.
  Stage step(size_t s, const std::vector<Carried>& carried) const {
    Stage out = readingNow(in_.stages[s]);
    out.outer.clear();
    for (const std::string& maximum : maximaOf(s)) {
      const Carried& c = carriedOf(s, maximum);
      const DType t = c.combine.types[0];
      const Expr joined = c.combine.join({load(c.run(0), t, c.index)}, {var(c.names[0], t)})[0];
      // Where nothing larger than -inf has come yet, 0 is subtracted: -inf from -inf is no number.
      const Expr now = select(eq(joined, imm(t, -kInfinity)), imm(t, 0), joined);
      const Expr before = load(nowName(maximum), t, c.index);
      for (const auto& [name, k] : fixes_)
        if (name == maximum)
          out.outer.push_back(
              {fixName(name, k),
               c.index,
               apply(Op::Exp, {k == -1 ? before - now : (now - before) * imm(t, k)}),
               "",
               {}});
      out.outer.push_back({nowName(maximum), c.index, now, "", {}});
    }
    for (const Carried& c : carried) {
      std::vector<Expr> kept, fresh;
      for (size_t m = 0; m < c.names.size(); m++) {
        const DType t = c.combine.types[m];
        Expr old = load(c.run(m), t, c.index);
        for (const Change::Term& term : c.change.scales)
          old = old * load(fixName(term.carried, term.k), t, term.index);
        kept.push_back(old);
        fresh.push_back(var(c.names[m], t));
      }
      const std::vector<Expr> joined = c.combine.join(kept, fresh);
      for (size_t m = 0; m < c.names.size(); m++)
        out.outer.push_back({c.run(m), c.index, joined[m], "", {}});
    }
    return out;
  }
  /// After the walk: what the stage's outer stores make of the carried values. Where no element was larger than -inf,
  /// a shift by the maximum has no value.
  std::optional<Stage> ending(size_t s, const std::vector<Carried>& carried) const {
    Stage out = onSpace(s);
    out.after = true;
    std::unordered_map<std::string, Expr> values;
    for (const Carried& c : carried)
      for (size_t m = 0; m < c.names.size(); m++) {
        const DType t = c.combine.types[m];
        Expr value = load(c.run(m), t, c.index);
        for (const Change::Term& term : c.change.scales) {
          const Carried& maximum = carriedOf(maxima_.at(term.carried), term.carried);
          value = value * select(eq(load(maximum.run(0), t, term.index), imm(t, -kInfinity)),
                                 imm(t, std::numeric_limits<double>::quiet_NaN()), imm(t, 1));
        }
        values[c.names[m]] = value;
      }
    for (const StageStore& store : in_.stages[s].outer)
      if (isOutput(store.buffer) || readAfter_.count(store.buffer))
        out.inner.push_back({store.buffer, store.index, substitute(store.value, values), "", {}});
    if (out.inner.empty()) return {};
    return out;
  }

  void addBuffers(StageSet& set) const {
    std::set<std::string> used;
    for (const Stage& s : set.stages) {
      for (const Expr& l : loadsOf(s)) used.insert(l.as<Load>()->buffer);
      for (const auto* stores : {&s.inner, &s.outer})
        for (const StageStore& store : *stores) used.insert(store.buffer);
    }
    for (const PlanBuffer& b : in_.buffers)
      if (used.count(b.name)) set.buffers.push_back(b);
    const auto scratch = [&](const std::string& name, const Carried& c, DType type) {
      PlanBuffer b{.kind = PlanBuffer::Scratch, .name = name, .value = {}, .type = c.type};
      b.type.dtype = type;
      set.buffers.push_back(std::move(b));
    };
    for (const auto& [s, carried] : carried_)
      for (const Carried& c : carried)
        for (size_t m = 0; m < c.names.size(); m++) scratch(c.run(m), c, c.combine.types[m]);
    for (const auto& [maximum, s] : maxima_)
      scratch(nowName(maximum), carriedOf(s, maximum), carriedOf(s, maximum).combine.types[0]);
    for (const auto& [maximum, k] : fixes_) {
      const Carried& c = carriedOf(maxima_.at(maximum), maximum);
      scratch(fixName(maximum, k), c, c.combine.types[0]);
    }
  }
};

/// A stage that only multiplies (or divides) by what doesn't change along axes over which all its readers then sum: the factor
/// leaves the sums.
class Deferring {
 public:
  explicit Deferring(StageSet set) : set_(std::move(set)) {}
  StageSet run() {
    for (size_t s = 0; s < set_.stages.size(); s++)
      if (defer(s)) {
        std::erase_if(set_.buffers, [&](const PlanBuffer& b) {
          return b.name == set_.stages[s].inner[0].buffer;
        });
        set_.stages.erase(set_.stages.begin() + static_cast<long>(s--));
      }
    return std::move(set_);
  }

 private:
  StageSet set_;

  struct Product {
    Expr load, factor;
    Op op = Op::Mul;
  };
  static std::optional<Product> productOf(const Expr& e) {
    const Apply* a = e.as<Apply>();
    if (!a || (a->op != Op::Mul && a->op != Op::Div)) return {};
    if (a->args[0].as<Load>()) return Product{a->args[0], a->args[1], a->op};
    if (a->args[1].as<Load>() && a->op == Op::Mul) return Product{a->args[1], a->args[0], a->op};
    return {};
  }
  /// Either operand may be the one that leaves: the one that varies less.
  bool defer(size_t s) {
    const Stage& stage = set_.stages[s];
    if (!stage.accumulators.empty() || !stage.outer.empty() || stage.inner.size() != 1)
      return false;
    const StageStore& store = stage.inner[0];
    const auto buffer = std::ranges::find(set_.buffers, store.buffer, &PlanBuffer::name);
    if (store.guard || !store.combine.empty() || buffer->kind != PlanBuffer::Scratch ||
        !isFloat(buffer->type.dtype))
      return false;
    std::optional<Product> p = productOf(store.value);
    if (p && !(p->load.as<Load>()->index == store.index)) {
      std::swap(p->load, p->factor);
      if (p->op != Op::Mul || !p->load.as<Load>() || !(p->load.as<Load>()->index == store.index))
        return false;
    }
    if (!p) return false;
    for (const Expr& e : store.index)
      if (!e.as<Var>() && !isConstant(e, 0)) return false;
    std::vector<Stage> changed = set_.stages;
    bool read = false;
    for (size_t k = s + 1; k < changed.size(); k++) {
      const std::optional<bool> did = intoSums(changed[k], store, *p);
      if (!did) return false;
      read = read || *did;
    }
    if (read) set_.stages = std::move(changed);
    return read;
  }
  /// Did it read the buffer? Nothing: it does, but otherwise than as a factor of sums.
  static std::optional<bool> intoSums(Stage& reader, const StageStore& store, const Product& p) {
    std::vector<Expr> loads;
    for (const Expr& l : loadsOf(reader))
      if (l.as<Load>()->buffer == store.buffer) loads.push_back(l);
    if (loads.empty()) return false;
    for (const auto* stores : {&reader.inner, &reader.outer})
      for (const StageStore& other : *stores)
        if (readsAny(other.value, store.buffer)) return {};
    std::unordered_map<std::string, Expr> after;
    for (Accumulator& a : reader.accumulators) {
      if (std::ranges::none_of(a.values, [&](const Expr& e) { return readsAny(e, store.buffer); }))
        continue;
      if (a.combine.name != "sum" || a.values.size() != 1 || loads.size() != 1 ||
          timesIn(a.values[0], loads[0]) != 1)
        return {};
      std::unordered_map<std::string, Expr> at;
      for (size_t d = 0; d < store.index.size(); d++)
        if (const Var* v = store.index[d].as<Var>()) at[v->name] = loads[0].as<Load>()->index[d];
      const Expr factor = substitute(p.factor, at), base = substitute(p.load, at);
      for (const std::string& v : freeVars(factor))
        if (std::ranges::any_of(reader.axes,
                                [&](const StageAxis& x) { return x.reduce && x.var == v; }))
          return {};
      a.values[0] =
          rewrite(a.values[0], [&](const Expr& e) { return e == loads[0] ? base : Expr(); });
      const Expr sum = var(a.names[0], a.combine.types[0]);
      after[a.names[0]] = apply(p.op, {sum, factor});
    }
    for (StageStore& o : reader.outer) o.value = substitute(o.value, after);
    return true;
  }
  static bool readsAny(const Expr& e, const std::string& buffer) {
    return std::ranges::any_of(loadsOf(e),
                               [&](const Expr& l) { return l.as<Load>()->buffer == buffer; });
  }
  /// How often a product has the load as a factor; 0 where the expression is no product of it.
  static int timesIn(const Expr& e, const Expr& wanted) {
    if (e == wanted) return 1;
    const Apply* a = e.as<Apply>();
    if (a && a->op == Op::Mul) return timesIn(a->args[0], wanted) + timesIn(a->args[1], wanted);
    return readsAny(e, wanted.as<Load>()->buffer) ? 2 : 0;
  }
};

}  // namespace

std::optional<Streamed> streamed(const StageSet& set) {
  return Streaming(Deferring(set).run()).run();
}

}  // namespace tektite
