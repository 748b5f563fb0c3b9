#include <algorithm>
#include <limits>

#include "fusion/axis_walk.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Stages {
 public:
  explicit Stages(const AxisWalk& walk) : w_(walk) {}

  Streamed build() {
    Streamed out{{}, -1, {}};
    std::vector<Stage> walk, behind;
    for (size_t s = 0; s < w_.in.stages.size(); s++) {
      const Stage& stage = w_.in.stages[s];
      if (w_.axis[s] < 0) {
        (w_.after[s] ? behind : out.set.stages).push_back(stage);
        if (w_.after[s]) behind.back().after = true;
        continue;
      }
      if (const auto it = w_.carried.find(s); it != w_.carried.end()) {
        out.set.stages.push_back(beginning(s, it->second));
        if (auto last = ending(s, it->second)) behind.push_back(std::move(*last));
        walk.push_back(step(s, it->second));
      } else {
        walk.push_back(readingNow(stage));
      }
      if (static_cast<int>(s) == w_.root) out.root = static_cast<int>(walk.size()) - 1;
    }
    out.root += static_cast<int>(out.set.stages.size());
    for (std::vector<Stage>* part : {&walk, &behind})
      for (Stage& s : *part) out.set.stages.push_back(std::move(s));
    out.rootAxes = w_.spaceAxes(w_.root);
    out.rootAxes.push_back(w_.axis[w_.root]);
    out.means = !w_.means.empty();
    addBuffers(out.set);
    return out;
  }

 private:
  const AxisWalk& w_;

  Expr identityOf(const CarriedSum& c, size_t m) const { return c.combine.identity[m]; }
  static std::string nowName(const std::string& maximum) { return "now_" + maximum; }
  std::string fixName(const std::string& maximum, double k) const {
    size_t number = 0;
    for (const auto& [name, factor] : w_.fixes)
      if (name == maximum && factor < k) number++;
    return fmt::format("fix{}_{}", number, maximum);
  }

  /// In the walk a maximum, or a mean, is what it is so far.
  Stage readingNow(const Stage& s) const {
    return mapped(s, [&](const Expr& root) {
      return rewrite(root, [&](const Expr& e) -> Expr {
        const Load* l = e.as<Load>();
        return l && (w_.maxima.count(l->buffer) || w_.means.count(l->buffer))
                   ? load(nowName(l->buffer), e.type(), l->index)
                   : Expr();
      });
    });
  }
  Stage onSpace(size_t s) const {
    Stage out;
    out.comment = w_.in.stages[s].comment;
    for (int a : w_.spaceAxes(s)) out.axes.push_back(w_.in.stages[s].axes[a]);
    return out;
  }
  /// The maxima that this stage makes and others read in the walk.
  std::vector<std::string> maximaOf(size_t s) const {
    std::vector<std::string> out;
    for (const auto& [name, stage] : w_.maxima)
      if (stage == s) out.push_back(name);
    return out;
  }
  const CarriedSum& carriedOf(size_t s, const std::string& maximum) const {
    for (const StageStore& store : w_.in.stages[s].outer)
      if (store.buffer == maximum)
        for (const CarriedSum& c : w_.carried.at(s))
          if (c.names[0] == store.value.as<Var>()->name) return c;
    TEKTITE_CHECK(false, "no accumulator of {}", maximum);
  }
  /// Of a mean: how many elements have been summed, and what its last move adds to sums of squares.
  static std::string countName(const std::string& mean) { return "count_" + mean; }
  static std::string moveName(const std::string& mean) { return "move_" + mean; }
  const CarriedSum& sumOf(const CarriedMean& m) const { return w_.carried.at(m.stage)[m.carried]; }
  std::vector<std::string> meansOf(size_t s) const {
    std::vector<std::string> out;
    for (const auto& [name, m] : w_.means)
      if (m.stage == s) out.push_back(name);
    return out;
  }
  Stage beginning(size_t s, const std::vector<CarriedSum>& carried) const {
    Stage first = onSpace(s);
    for (const std::string& mean : meansOf(s)) {
      const CarriedSum& c = sumOf(w_.means.at(mean));
      for (const std::string& name : {nowName(mean), countName(mean)})
        first.inner.push_back({name, c.index, imm(c.combine.types[0], 0), "", {}});
    }
    for (const CarriedSum& c : carried)
      for (size_t m = 0; m < c.names.size(); m++)
        first.inner.push_back({c.run(m), c.index, identityOf(c, m), "", {}});
    for (const std::string& maximum : maximaOf(s)) {
      const CarriedSum& c = carriedOf(s, maximum);
      first.inner.push_back({nowName(maximum), c.index, imm(c.combine.types[0], 0), "", {}});
    }
    return first;
  }
  /// One piece: its own reduction joined with what is carried.
  Stage step(size_t s, const std::vector<CarriedSum>& carried) const {
    Stage out = readingNow(w_.in.stages[s]);
    out.outer.clear();
    for (const std::string& maximum : maximaOf(s)) {
      const CarriedSum& c = carriedOf(s, maximum);
      const DType t = c.combine.types[0];
      const Expr joined = c.combine.join({load(c.run(0), t, c.index)}, {var(c.names[0], t)})[0];
      // Where nothing larger than -inf has come yet, 0 is subtracted: -inf from -inf is no number.
      const Expr now = select(eq(joined, imm(t, -kInfinity)), imm(t, 0), joined);
      const Expr before = load(nowName(maximum), t, c.index);
      for (const auto& [name, k] : w_.fixes)
        if (name == maximum)
          out.outer.push_back(
              {fixName(name, k),
               c.index,
               apply(Op::Exp, {k == -1 ? before - now : (now - before) * imm(t, k)}),
               "",
               {}});
      out.outer.push_back({nowName(maximum), c.index, now, "", {}});
    }
    for (const std::string& mean : meansOf(s)) moveMean(mean, out);
    for (const CarriedSum& c : carried) {
      std::vector<Expr> kept, fresh;
      for (size_t m = 0; m < c.names.size(); m++) {
        const DType t = c.combine.types[m];
        Expr old = load(c.run(m), t, c.index);
        for (const Change::Term& term : c.change.scales)
          old = old * load(fixName(term.carried, term.k), t, term.index);
        if (!c.mean.empty()) old = old + load(moveName(c.mean), t, c.meanIndex);
        kept.push_back(old);
        fresh.push_back(var(c.names[m], t));
      }
      const std::vector<Expr> joined = c.combine.join(kept, fresh);
      for (const size_t m : c.order) out.outer.push_back({c.run(m), c.index, joined[m], "", {}});
    }
    return out;
  }
  /// The mean with this piece, and what that adds to the squares before it: (before - now)^2 for each.
  void moveMean(const std::string& mean, Stage& out) const {
    const CarriedSum& c = sumOf(w_.means.at(mean));
    const DType t = c.combine.types[0];
    const std::string piece = "n_" + c.names[0];
    out.accumulators.push_back({builtinCombine("sum", t), {imm(t, 1)}, {piece}});
    const Expr count = load(countName(mean), t, c.index), before = load(nowName(mean), t, c.index),
               sum = load(c.run(0), t, c.index) + var(c.names[0], t),
               now = sum / (count + var(piece, t)), far = before - now;
    const auto store = [&](const std::string& name, const Expr& e) {
      out.outer.push_back({name, c.index, e, "", {}});
    };
    // Nothing moves where nothing was: the first mean may be no number.
    store(moveName(mean), select(eq(count, imm(t, 0)), imm(t, 0), far * far * count));
    store(nowName(mean), now);
    store(countName(mean), count + var(piece, t));
  }
  /// After the walk: what the stage's outer stores make of the carried values. Where no element was larger than -inf,
  /// a shift by the maximum has no value.
  std::optional<Stage> ending(size_t s, const std::vector<CarriedSum>& carried) const {
    Stage out = onSpace(s);
    out.after = true;
    std::unordered_map<std::string, Expr> values;
    for (const CarriedSum& c : carried)
      for (size_t m = 0; m < c.names.size(); m++) {
        const DType t = c.combine.types[m];
        Expr value = load(c.run(m), t, c.index);
        for (const Change::Term& term : c.change.scales) {
          const CarriedSum& maximum = carriedOf(w_.maxima.at(term.carried), term.carried);
          value = value * select(eq(load(maximum.run(0), t, term.index), imm(t, -kInfinity)),
                                 imm(t, std::numeric_limits<double>::quiet_NaN()), imm(t, 1));
        }
        values[c.names[m]] = value;
      }
    for (const StageStore& store : w_.in.stages[s].outer)
      if (w_.isOutput(store.buffer) || w_.readAfter.count(store.buffer))
        out.inner.push_back({store.buffer, store.index, substitute(store.value, values), "", {}});
    if (out.inner.empty()) return {};
    return out;
  }

  void addBuffers(StageSet& set) const {
    const std::set<std::string> used = buffersOf(set.stages);
    for (const PlanBuffer& b : w_.in.buffers)
      if (used.count(b.name)) set.buffers.push_back(b);
    const auto scratch = [&](const std::string& name, const CarriedSum& c, DType type) {
      PlanBuffer b{.kind = PlanBuffer::Scratch, .name = name, .value = {}, .type = c.type};
      b.type.dtype = type;
      set.buffers.push_back(std::move(b));
    };
    for (const auto& [s, carried] : w_.carried)
      for (const CarriedSum& c : carried)
        for (size_t m = 0; m < c.names.size(); m++) scratch(c.run(m), c, c.combine.types[m]);
    for (const auto& [maximum, s] : w_.maxima)
      scratch(nowName(maximum), carriedOf(s, maximum), carriedOf(s, maximum).combine.types[0]);
    for (const auto& [mean, m] : w_.means)
      for (const std::string& name : {nowName(mean), countName(mean), moveName(mean)})
        scratch(name, sumOf(m), sumOf(m).combine.types[0]);
    for (const auto& [maximum, k] : w_.fixes) {
      const CarriedSum& c = carriedOf(w_.maxima.at(maximum), maximum);
      scratch(fixName(maximum, k), c, c.combine.types[0]);
    }
  }
};

}  // namespace

Streamed stagesOf(const AxisWalk& walk) { return Stages(walk).build(); }

}  // namespace tektite
