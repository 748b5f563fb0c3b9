#include "fusion/streaming.h"

#include <algorithm>
#include <limits>
#include <set>

#include "fusion/change.h"
#include "fusion/region.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  Streaming(const StageSet& set, bool always) : in_(set), always_(always) {}

  std::optional<Streamed> run() {
    if (in_.scatters || !findAxis()) return {};
    for (size_t s = 0; s < in_.stages.size(); s++)
      if (!(axis_[s] < 0 ? beside(s) : inWalk(s))) return {};
    std::erase_if(maxima_, [&](const auto& m) { return !waitedFor_.count(m.first); });
    if (maxima_.empty() && !always_) return {};  // nothing waits for another reduction
    for (size_t s = 0; s < in_.stages.size(); s++)
      if (axis_[s] < 0 && after_[s])
        for (const Expr& l : loadsOf(in_.stages[s])) readAfter_.insert(l.as<Load>()->buffer);
    return build();
  }

 private:
  const StageSet& in_;
  const bool always_;
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
    return reducing > (always_ ? 0 : 1);
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

  std::optional<Change> changeOf(const Expr& e, size_t s) {
    return tektite::changeOf(e, [&](const Load& l) { return ofLoad(l, s); });
  }
  std::optional<Change> ofLoad(const Load& l, size_t s) {
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
    const std::set<std::string> used = buffersOf(set.stages);
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

}  // namespace

std::optional<Streamed> streamed(const StageSet& set, bool always) {
  return Streaming(deferFactors(set), always).run();
}

}  // namespace tektite
