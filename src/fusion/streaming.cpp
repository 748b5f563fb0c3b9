#include "fusion/streaming.h"

#include <algorithm>
#include <cmath>

#include "fusion/axis_walk.h"
#include "fusion/region.h"
#include "fusion/same_values.h"
#include "ir/mentions.h"
#include "support/check.h"

namespace tektite {
namespace {

/// A buffer that has an element for every step of the walk.
struct Along {
  std::vector<Expr> index;  // where its stage stores, over `axes`
  std::vector<StageAxis> axes;
  size_t dim = 0;  // the one that the walk runs along
  Change change;
};

/// Of a sum of (x - m)(x - m): x - m; else null.
const Apply* squaredDistance(const Accumulator& sum) {
  const Apply* square = sum.values[0].as<Apply>();
  if (sum.combine.name != "sum" || !square || square->op != Op::Mul ||
      !(square->args[0] == square->args[1]))
    return nullptr;
  const Apply* distance = square->args[0].as<Apply>();
  return distance && distance->op == Op::Sub ? distance : nullptr;
}

class Streaming {
 public:
  Streaming(const StageSet& set, GroupShape shape, bool always)
      : always_(always), w_{set}, shape_(std::move(shape)) {}

  std::optional<Streamed> run() {
    if (!findAxis()) return {};
    for (size_t s = 0; s < w_.in.stages.size(); s++)
      if (!(w_.axis[s] < 0 ? beside(s) : inWalk(s))) return {};
    std::erase_if(w_.maxima, [&](const auto& m) { return !waitedFor_.count(m.first); });
    std::erase_if(w_.means, [&](const auto& m) { return !waitedFor_.count(m.first); });
    if (w_.maxima.empty() && w_.means.empty() && !always_)
      return {};  // nothing waits for another reduction
    for (size_t s = 0; s < w_.in.stages.size(); s++)
      if (w_.axis[s] < 0 && w_.after[s])
        for (const Expr& l : loadsOf(w_.in.stages[s])) w_.readAfter.insert(l.as<Load>()->buffer);
    Streamed out = stagesOf(w_);
    used_.insert(Algebraic::Carry);
    if (out.means) used_.insert(Algebraic::Mean);
    out.rules = std::move(used_);
    return out;
  }

 private:
  const bool always_;
  AxisWalk w_;
  GroupShape shape_;
  std::map<std::string, Along> along_;
  std::set<std::string> results_;    // buffers that are known after the walk only
  std::set<std::string> waitedFor_;  // maxima and means that are read in the walk
  RulesUsed used_;

  /// The longest reduce axis of the last stage that has one, and the axes of other stages that are the same.
  bool findAxis() {
    GroupShape& g = shape_;
    int longest = -1;
    for (size_t s = 0; s < w_.in.stages.size(); s++) {
      const std::vector<StageAxis>& axes = w_.in.stages[s].axes;
      if (std::ranges::none_of(axes, &StageAxis::reduce)) continue;
      w_.root = static_cast<int>(s), longest = -1;
      for (size_t a = 0; a < axes.size(); a++)
        if (axes[a].reduce && (longest < 0 || axes[a].extent > axes[longest].extent))
          longest = static_cast<int>(a);
    }
    if (w_.root < 0) return false;
    std::vector<int> axes = w_.spaceAxes(w_.root);
    if (axes.size() >= kMostTiles) return false;
    axes.push_back(longest);
    setRoot(g, w_.root, axes);
    const int walked = static_cast<int>(axes.size()) - 1;
    int reducing = 0;
    for (size_t s = 0; s < w_.in.stages.size(); s++) {
      const auto at = std::ranges::find(g.follows[s], walked);
      w_.axis.push_back(at == g.follows[s].end() ? -1
                                                 : static_cast<int>(at - g.follows[s].begin()));
      reducing += w_.axis[s] >= 0 && w_.in.stages[s].axes[w_.axis[s]].reduce;
    }
    w_.after.assign(w_.in.stages.size(), false);
    return reducing > (always_ ? 0 : 1);
  }

  // ---- what may be walked

  /// A stage without the axis runs before the walk, or after it where it reads what the walk makes.
  bool beside(size_t s) {
    for (const Expr& l : loadsOf(w_.in.stages[s])) {
      if (along_.count(l.as<Load>()->buffer)) return false;
      w_.after[s] = w_.after[s] || results_.count(l.as<Load>()->buffer);
    }
    if (w_.after[s])
      for (const auto* stores : {&w_.in.stages[s].inner, &w_.in.stages[s].outer})
        for (const StageStore& store : *stores) results_.insert(store.buffer);
    return true;
  }

  bool inWalk(size_t s) {
    const Stage& stage = w_.in.stages[s];
    const bool reduces = stage.axes[w_.axis[s]].reduce;
    for (const StageStore& store : stage.inner)
      if (!storeAlong(s, store)) return false;
    std::vector<CarriedSum> carried;
    for (const Accumulator& a : stage.accumulators) {
      CarriedSum c{a.combine, a.names, {}, {}, {}, "", {}};
      if (reduces && squaresFromMean(s, a, c)) {
        carried.push_back(std::move(c));
        continue;
      }
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
    for (CarriedSum& c : carried) {
      if (c.index.empty() && !w_.spaceAxes(s).empty()) return false;
      if (!findOrder(c)) return false;
      for (const Change::Term& t : c.change.scales) w_.fixes.insert({t.carried, t.k});
    }
    w_.carried[s] = std::move(carried);
    return true;
  }
  /// Values of one state are stored one after the other: each before those that it reads. False where they read each other.
  static bool findOrder(CarriedSum& c) {
    const std::vector<Expr>& next = c.combine.result;
    const auto isRead = [&](size_t m) {
      for (size_t other = 0; other < next.size(); other++)
        if (other != m && !std::ranges::count(c.order, other) &&
            mentions(next[other], c.combine.left[m]))
          return true;
      return false;
    };
    while (c.order.size() < next.size()) {
      size_t m = 0;
      while (m < next.size() && (std::ranges::count(c.order, m) || isRead(m))) m++;
      if (m == next.size()) return false;
      c.order.push_back(m);
    }
    return true;
  }
  /// Is the factor the same for all that the stage adds up?
  bool leavesSum(const Change& change, const Stage& stage) const {
    return std::ranges::none_of(
        change.scales, [&](const Change::Term& t) { return movesWithReduced(t.index, stage); });
  }
  static bool movesWithReduced(const std::vector<Expr>& index, const Stage& stage) {
    return std::ranges::any_of(
        stage.axes, [&](const StageAxis& a) { return a.reduce && mentions(index, a.var); });
  }
  /// A value at every step of the walk: scratch may change with the carried ones, a result may not.
  bool storeAlong(size_t s, const StageStore& store) {
    const Stage& stage = w_.in.stages[s];
    const std::optional<Change> change = changeOf(store.value, s);
    if (!change || !change->shifts.empty() || store.guard || !store.combine.empty()) return false;
    if (w_.isOutput(store.buffer)) return change->none();
    Along along{store.index, stage.axes, store.index.size(), *change};
    for (size_t d = 0; d < store.index.size(); d++) {
      const Var* v = store.index[d].as<Var>();
      if (!v && !isConstant(store.index[d], 0)) return false;
      if (v && v->name == stage.axes[w_.axis[s]].var) along.dim = d;
    }
    if (along.dim == store.index.size()) return false;
    along_[store.buffer] = std::move(along);
    return true;
  }
  /// What follows from reductions over the axis: known after the walk; a maximum as it is may be read on the way, too.
  bool result(size_t s, const StageStore& store, std::vector<CarriedSum>& carried) {
    const Stage& stage = w_.in.stages[s];
    if (store.guard || !store.combine.empty() || !readsResults(store.value)) return false;
    const std::vector<std::string> vars = freeVars(store.value);
    std::set<std::string> indexed;
    for (const Expr& e : store.index) {
      const Var* v = e.as<Var>();
      if (!v && !isConstant(e, 0)) return false;
      if (v) indexed.insert(v->name);
    }
    for (int a : w_.spaceAxes(s))
      if (!indexed.count(stage.axes[a].var)) return false;
    for (CarriedSum& c : carried)
      for (const std::string& name : c.names)
        if (std::ranges::count(vars, name) && c.index.empty()) {
          c.index = store.index;
          c.type = w_.buffer(store.buffer).type;
        }
    results_.insert(store.buffer);
    const Var* plain = store.value.as<Var>();
    for (const Accumulator& a : stage.accumulators)
      if (plain && a.names.size() == 1 && a.names[0] == plain->name && a.combine.name == "max" &&
          isFloat(store.value.type()))
        w_.maxima[store.buffer] = s;
    for (size_t a = 0; a < carried.size(); a++)
      if (isMean(store.value, carried[a], stage)) w_.means[store.buffer] = {s, a, store.index};
    return true;
  }

  // ---- mean and variance: Welford's algorithm, by pieces (Chan, Golub & LeVeque 1979)

  /// A sum by the number of its elements, of values that nothing carried changes.
  static bool isMean(const Expr& e, const CarriedSum& c, const Stage& stage) {
    const Apply* a = e.as<Apply>();
    if (!a || (a->op != Op::Mul && a->op != Op::Div) || !isFloat(e.type())) return false;
    if (c.combine.name != "sum" || !c.change.none() || !c.mean.empty()) return false;
    const bool first = a->args[0].as<Var>() != nullptr;
    if (!first && a->op == Op::Div) return false;
    const Var* sum = a->args[first ? 0 : 1].as<Var>();
    const Imm* by = a->args[first ? 1 : 0].as<Imm>();
    if (!sum || !by || sum->name != c.names[0]) return false;
    double count = 1;
    for (const StageAxis& axis : stage.axes)
      if (axis.reduce) count *= static_cast<double>(axis.extent);
    return std::abs((a->op == Op::Div ? by->real / count : by->real * count) - 1) < 1e-6;
  }
  /// A sum of (x - m)(x - m), where m is the mean of the same x over the same axes: of what has been summed so far, the distances from
  /// the mean so far add up to 0, so a mean that moves by d adds d d for every element. Any other use of a mean is refused.
  bool squaresFromMean(size_t s, const Accumulator& sum, CarriedSum& c) {
    const Apply* distance = squaredDistance(sum);
    if (!distance) return false;
    for (const int side : {0, 1}) {
      const Load* mean = distance->args[side].as<Load>();
      const auto it = mean ? w_.means.find(mean->buffer) : w_.means.end();
      if (it == w_.means.end() || !sumsThis(it->second, distance->args[1 - side], mean->index, s))
        continue;
      c.mean = mean->buffer;
      c.meanIndex = mean->index;
      waitedFor_.insert(mean->buffer);
      return true;
    }
    return false;
  }
  /// Does the mean, read at `index` by stage `s`, sum just these values, over the axes that it reduces?
  bool sumsThis(const CarriedMean& m, const Expr& value, const std::vector<Expr>& index,
                size_t s) const {
    const Stage &from = w_.in.stages[m.stage], &to = w_.in.stages[s];
    const auto bound = reducedAxes({m.stage, s, w_}, from.accumulators[m.carried].values[0],
                                   m.index, index, value);
    if (!bound || movesWithReduced(index, to)) return false;
    std::set<std::string> mine;
    for (const StageAxis& a : to.axes)
      if (a.reduce) mine.insert(a.var);
    return *bound == mine &&
           std::ranges::count_if(from.axes, &StageAxis::reduce) == static_cast<long>(mine.size());
  }
  /// What it loads, it loads after the walk.
  bool readsResults(const Expr& e) {
    for (const Expr& l : loadsOf(e)) {
      if (along_.count(l.as<Load>()->buffer)) return false;
      w_.readAfter.insert(l.as<Load>()->buffer);
    }
    return true;
  }

  std::optional<Change> changeOf(const Expr& e, size_t s) {
    const auto isBelow = [&](const Expr& value, const Change::Term& maximum) {
      const size_t from = w_.maxima.at(maximum.carried);
      const auto store =
          std::ranges::find(w_.in.stages[from].outer, maximum.carried, &StageStore::buffer);
      const std::string& name = store->value.as<Var>()->name;
      for (const Accumulator& a : w_.in.stages[from].accumulators)
        if (a.names[0] == name)
          return !!reducedAxes({from, s, w_}, a.values[0], store->index, maximum.index, value);
      return false;
    };
    return tektite::changeOf(e, {[&](const Load& l) { return ofLoad(l, s); }, isBelow, &used_});
  }
  std::optional<Change> ofLoad(const Load& l, size_t s) {
    if (const auto it = along_.find(l.buffer); it != along_.end()) {
      const Along& from = it->second;
      const Var* at = l.index[from.dim].as<Var>();
      if (!at || at->name != w_.in.stages[s].axes[w_.axis[s]].var) return {};
      Change c = from.change;
      const auto to = axesAt(from.index, l.index);
      for (Change::Term& t : c.scales)
        for (Expr& e : t.index) e = substitute(e, to);
      return c;
    }
    if (!results_.count(l.buffer)) return Change{};
    if (!w_.maxima.count(l.buffer)) return {};
    waitedFor_.insert(l.buffer);
    return Change{{{l.buffer, l.index, 1}}, {}};
  }
};

}  // namespace

bool mayCarryMeans(const StageSet& set) {
  return std::ranges::any_of(set.stages, [](const Stage& s) {
    return std::ranges::any_of(s.accumulators, squaredDistance);
  });
}

std::optional<Streamed> streamed(const StageSet& set, const GroupShape& shape, bool always) {
  const auto reducing = std::ranges::count_if(
      set.stages, [](const Stage& s) { return std::ranges::any_of(s.axes, &StageAxis::reduce); });
  if (set.scatters || reducing <= (always ? 0 : 1)) return {};
  StageSet in = deferFactors(set);
  const bool same = in.stages.size() == set.stages.size();
  if (!same) in.facts.clear();
  auto out = Streaming(in, same ? shape : shapeOf(in), always).run();
  if (out && !same) out->rules.insert(Algebraic::Defer);
  return out;
}

}  // namespace tektite
