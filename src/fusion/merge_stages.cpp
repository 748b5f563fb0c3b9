#include "fusion/merge_stages.h"

#include <algorithm>
#include <optional>

#include "fusion/stage_bits.h"
#include "fusion/stages.h"
#include "ir/rewriter.h"
#include "support/check.h"

namespace tektite {
namespace {

using Parts = std::vector<
    std::vector<StageAxis>>;  // for each index: the axes that make it up, outermost first

/// The index as a mixed-radix number of axes, each used once; nothing where it is another expression.
std::optional<Parts> partsOf(const std::vector<Expr>& index, const Stage& s) {
  Parts out;
  std::set<std::string> used;
  for (const Expr& e : index) {
    const Linear linear = linearOf(e);
    if (linear.constant != 0) return {};
    std::vector<std::pair<int64_t, StageAxis>> parts;
    for (const auto& [term, coefficient] : linear.terms) {
      const Var* v = term.as<Var>();
      if (!v || !used.insert(v->name).second) return {};
      const auto axis = std::ranges::find(s.axes, v->name, &StageAxis::var);
      if (axis == s.axes.end()) return {};
      parts.push_back({coefficient, *axis});
    }
    std::ranges::sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
    int64_t step = 1;
    for (size_t i = parts.size(); i-- > 0; step *= parts[i].second.extent)
      if (parts[i].first != step) return {};
    out.emplace_back();
    for (auto& [coefficient, axis] : parts) out.back().push_back(axis);
  }
  return out;
}
Expr composite(const std::vector<StageAxis>& parts) {
  Expr sum;
  int64_t step = 1;
  for (size_t i = parts.size(); i-- > 0; step *= parts[i].extent) {
    const Expr part = var(parts[i].var) * Expr(step);
    sum = sum ? part + sum : part;
  }
  return sum;
}

/// How the axes of a guest become those of its host, given one buffer's index in both.
struct Binding {
  std::unordered_map<std::string, Expr> guest, host;    // substitutions
  std::map<std::string, std::vector<StageAxis>> split;  // of host axes
};
std::optional<Binding> bindAxes(const std::vector<Expr>& hostIndex, const Stage& host,
                                const std::vector<Expr>& guestIndex, const Stage& guest) {
  const auto h = partsOf(hostIndex, host), g = partsOf(guestIndex, guest);
  if (!h || !g) return {};
  Binding out;
  const auto extents = [](const std::vector<StageAxis>& parts) {
    std::vector<int64_t> e;
    for (const StageAxis& a : parts) e.push_back(a.extent);
    return e;
  };
  const auto total = [&](const std::vector<StageAxis>& parts) {
    int64_t n = 1;
    for (const StageAxis& a : parts) n *= a.extent;
    return n;
  };
  for (size_t i = 0; i < h->size(); i++) {
    const auto &mine = (*h)[i], &theirs = (*g)[i];
    if (total(mine) != total(theirs)) return {};
    if (extents(mine) == extents(theirs)) {
      for (size_t k = 0; k < mine.size(); k++) out.guest[theirs[k].var] = var(mine[k].var);
    } else if (mine.size() == 1) {
      out.split[mine[0].var] = theirs;
      out.host[mine[0].var] = composite(theirs);
    } else if (theirs.size() == 1) {
      out.guest[theirs[0].var] = composite(mine);
    } else {
      return {};
    }
  }
  return out;
}

bool sameIndex(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size(); i++)
    if (!(a[i] == b[i]) && !isConstant(simplify(a[i] - b[i], {}), 0)) return false;
  return a.size() == b.size();
}

class Merger {
 public:
  Merger(std::vector<Stage> stages, const std::set<std::string>& kept)
      : s_(std::move(stages)), kept_(kept) {
    alive_.assign(s_.size(), true);
    reads_.resize(s_.size());
    for (size_t i = 0; i < s_.size(); i++) {
      reads_[i] = loadsOf(s_[i]);
      for (const StageStore* store : storesOf(s_[i])) writers_[store->buffer].insert(i);
    }
    order_.assign(s_.size(), StageBits(s_.size()));
    for (size_t i = 0; i < s_.size(); i++)
      for (size_t d : dependencies(i)) {
        order_[i].add(d);
        order_[i].add(order_[d]);
      }
  }

  std::vector<Stage> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < s_.size(); i++)
        if (alive_[i]) changed |= isMap(i) && (behind(i) || into(i));
      for (size_t i = 0; i < s_.size() && !changed; i++)
        for (size_t k = i + 1; k < s_.size() && alive_[i]; k++)
          if (alive_[k]) changed |= beside(i, k);
    }
    return sorted();
  }

 private:
  std::vector<Stage> s_;
  const std::set<std::string>& kept_;
  std::vector<bool> alive_;
  std::vector<std::vector<Expr>> reads_;
  std::map<std::string, std::set<size_t>> writers_;  // several: each stores a part
  std::vector<StageBits> order_;                     // [i][d]: i needs d, directly or not

  static std::vector<const StageStore*> storesOf(const Stage& s) {
    std::vector<const StageStore*> out;
    for (const auto* stores : {&s.inner, &s.outer})
      for (const StageStore& store : *stores) out.push_back(&store);
    return out;
  }
  bool isMap(size_t i) const { return s_[i].accumulators.empty(); }
  std::set<size_t> dependencies(size_t i) const {
    std::set<size_t> out;
    for (const Expr& e : reads_[i])
      if (const auto it = writers_.find(e.as<Load>()->buffer); it != writers_.end())
        out.insert(it->second.begin(), it->second.end());
    out.erase(i);
    return out;
  }
  /// A product of different loads of which one is used at several points of the space: to be left a nest of its own.
  bool isContraction(size_t i) const {
    const Stage& s = s_[i];
    if (s.accumulators.size() != 1 || s.accumulators[0].combine.name != "sum") return false;
    const Apply* a = s.accumulators[0].values[0].as<Apply>();
    return a && a->op == Op::Mul && loadsOf(a->args[0]).size() == 1 &&
           loadsOf(a->args[1]).size() == 1 && !(a->args[0] == a->args[1]) && hasReuse(s);
  }

  /// Map i joins the nest of a reduction that it reads at its own point.
  bool behind(size_t i) {
    for (size_t host : dependencies(i)) {
      if (isMap(host)) continue;
      const std::set<size_t> all = dependencies(i);
      if (std::ranges::any_of(all, [&](size_t d) { return d != host && order_[d][host]; }))
        continue;
      if (joinBehind(i, host)) return true;
    }
    return false;
  }
  bool joinBehind(size_t i, size_t host) {
    std::optional<Binding> binding;
    const auto outerStore = [&](const std::string& buffer) -> const StageStore* {
      const auto it = std::ranges::find(s_[host].outer, buffer, &StageStore::buffer);
      return it == s_[host].outer.end() ? nullptr : &*it;
    };
    for (const Expr& e : reads_[i]) {
      const Load* l = e.as<Load>();
      const auto w = writers_.find(l->buffer);
      if (w == writers_.end() || !w->second.count(host)) continue;
      if (w->second.size() > 1) return false;
      const StageStore* store = outerStore(l->buffer);
      if (!store) return false;
      const auto now = bindAxes(store->index, s_[host], l->index, s_[i]);
      if (!now) return false;
      if (!binding) binding = now;
    }
    if (!binding || !coversSpace(*binding, s_[host], s_[i])) return false;
    return join(host, i, *binding, true);
  }
  static bool coversSpace(const Binding& b, const Stage& host, const Stage& guest) {
    size_t space = 0, split = 0;
    for (const StageAxis& a : host.axes) space += !a.reduce;
    for (const auto& [axis, parts] : b.split) split += parts.size();
    std::set<std::string> hostVars;
    for (const auto& [name, e] : b.guest)
      for (const std::string& v : freeVars(e)) hostVars.insert(v);
    return hostVars.size() + b.split.size() == space && b.guest.size() + split == guest.axes.size();
  }

  /// Map i joins the nest of the first reader that reads it at every point of its own axes.
  bool into(size_t i) {
    for (size_t host = 0; host < s_.size(); host++) {
      if (!alive_[host] || host == i || isContraction(host)) continue;
      const std::set<size_t> needs = dependencies(host);
      if (!needs.count(i)) continue;
      if (std::ranges::any_of(needs, [&](size_t d) { return d != i && order_[d][i]; })) continue;
      if (joinInto(i, host)) return true;
    }
    return false;
  }
  bool joinInto(size_t i, size_t host) {
    std::optional<Binding> binding;
    for (const Expr& e : reads_[host]) {
      const Load* l = e.as<Load>();
      const auto w = writers_.find(l->buffer);
      if (w == writers_.end() || !w->second.count(i)) continue;
      if (w->second.size() > 1) return false;
      const auto store = std::ranges::find(s_[i].inner, l->buffer, &StageStore::buffer);
      const auto now = bindAxes(l->index, s_[host], store->index, s_[i]);
      if (!now) return false;
      if (!binding) binding = now;
    }
    if (!binding) return false;
    std::set<std::string> hostVars;
    size_t split = 0;
    for (const auto& [axis, parts] : binding->split) hostVars.insert(axis), split += parts.size();
    for (const auto& [name, e] : binding->guest)
      for (const std::string& v : freeVars(e)) hostVars.insert(v);
    if (hostVars.size() != s_[host].axes.size() ||
        binding->guest.size() + split != s_[i].axes.size())
      return false;
    return join(host, i, *binding, false);
  }

  static Stage applied(const Stage& s, const std::unordered_map<std::string, Expr>& to,
                       const Ranges& ranges) {
    if (to.empty()) return s;
    Rewriter placed = substituting(to);
    if (std::ranges::all_of(to, [](const auto& t) { return t.second.template as<Var>(); }))
      return mapped(s, std::ref(placed));
    return mapped(s, [&](const Expr& e) { return simplify(placed(e), ranges); });
  }
  static void addRanges(const Stage& s, Ranges& out) {
    for (const StageAxis& a : s.axes) out[a.var] = {0, std::max<int64_t>(a.extent - 1, 0)};
  }

  /// Where axes only change their names: those of the guest for those of the host. The smaller of two stages is renamed.
  static std::optional<std::unordered_map<std::string, Expr>> inverse(const Binding& b) {
    std::unordered_map<std::string, Expr> out;
    for (const auto& [name, e] : b.guest) {
      const Var* v = e.as<Var>();
      if (!v || !out.emplace(v->name, var(name)).second) return {};
    }
    return b.host.empty() ? std::optional(std::move(out)) : std::nullopt;
  }

  /// One nest of both: `behind`, the guest's stores follow the host's reductions; else they come before them.
  bool join(size_t host, size_t i, const Binding& b, bool behind) {
    Ranges ranges;
    addRanges(s_[host], ranges);
    addRanges(s_[i], ranges);
    const auto back =
        storesOf(s_[i]).size() > storesOf(s_[host]).size() ? inverse(b) : std::nullopt;
    Stage h = applied(s_[host], back ? *back : b.host, ranges),
          g = back ? s_[i] : applied(s_[i], b.guest, ranges);
    for (StageAxis& a : h.axes)
      if (back && back->count(a.var)) a.var = back->at(a.var).as<Var>()->name;
    std::vector<StageAxis> axes;
    for (const StageAxis& a : h.axes) {
      const auto it = b.split.find(a.var);
      if (it == b.split.end()) {
        axes.push_back(a);
        continue;
      }
      for (StageAxis part : it->second) {
        part.reduce = a.reduce;
        axes.push_back(part);
      }
    }
    h.axes = std::move(axes);
    const Stage& from = behind ? h : g;
    const auto& values = behind ? from.outer : from.inner;
    bool same = true;
    std::map<std::string, const StageStore*> stored;
    for (const StageStore& store : values) stored.emplace(store.buffer, &store);
    Rewriter inlined([&](const Expr&, const Expr& e) -> Expr {
      const Load* l = e.as<Load>();
      const auto store = l ? stored.find(l->buffer) : stored.end();
      if (store == stored.end()) return {};
      same &= sameIndex(store->second->index, l->index);
      return store->second->value;
    });
    if (behind) {
      g = mapped(g, std::ref(inlined));
      if (!same) return false;
      h.outer.insert(h.outer.end(), g.inner.begin(), g.inner.end());
    } else {
      h = mapped(h, std::ref(inlined));
      if (!same) return false;
      h.inner.insert(h.inner.begin(), g.inner.begin(), g.inner.end());
    }
    replace(host, i, std::move(h));
    return true;
  }

  void replace(size_t host, size_t guest, Stage merged) {
    if (merged.comment.find(s_[guest].comment) == std::string::npos)
      merged.comment += "+" + s_[guest].comment;
    s_[host] = std::move(merged);
    alive_[guest] = false;
    reads_[host] = loadsOf(s_[host]);
    for (const StageStore* store : storesOf(s_[host])) {
      writers_[store->buffer].erase(guest);
      writers_[store->buffer].insert(host);
    }
    order_[host].add(order_[guest]);
    order_[host].remove(guest);
    order_[host].remove(host);
    for (size_t x = 0; x < s_.size(); x++)
      if (order_[x][guest] || order_[x][host]) {
        order_[x].add(order_[host]);
        order_[x].add(host);
      }
  }

  /// Two nests of equal axes that read the same element somewhere, neither needing the other.
  bool beside(size_t a, size_t b) {
    const Stage &left = s_[a], &right = s_[b];
    if (left.axes.size() != right.axes.size() || order_[a][b] || order_[b][a] || isContraction(a) ||
        isContraction(b))
      return false;
    std::unordered_map<std::string, Expr> names;
    for (size_t i = 0; i < left.axes.size(); i++) {
      if (left.axes[i].extent != right.axes[i].extent ||
          left.axes[i].reduce != right.axes[i].reduce)
        return false;
      names[right.axes[i].var] = var(left.axes[i].var);
    }
    std::set<Hash> mine;
    for (const Expr& e : reads_[a]) mine.insert(e.hash());
    const bool shares = std::ranges::any_of(reads_[b], [&](const Expr& e) {
      return !freeVars(e).empty() && mine.count(substitute(e, names).hash());
    });
    if (!shares) return false;
    const Stage g = mapped(right, substituting(names));
    Stage h = left;
    h.inner.insert(h.inner.end(), g.inner.begin(), g.inner.end());
    h.accumulators.insert(h.accumulators.end(), g.accumulators.begin(), g.accumulators.end());
    h.outer.insert(h.outer.end(), g.outer.begin(), g.outer.end());
    replace(a, b, std::move(h));
    return true;
  }

  /// Topological order, by the order of creation where there is a choice; without stores that nobody reads.
  std::vector<Stage> sorted() {
    std::vector<Stage> out;
    std::vector<bool> done(s_.size());
    for (bool more = true; more;) {
      more = false;
      for (size_t i = 0; i < s_.size(); i++) {
        if (!alive_[i] || done[i]) continue;
        if (!std::ranges::all_of(dependencies(i), [&](size_t d) { return done[d]; })) continue;
        done[i] = more = true;
        out.push_back(s_[i]);
        break;
      }
    }
    prune(out);
    return out;
  }
  void prune(std::vector<Stage>& stages) const {
    std::set<std::string> read = kept_;
    for (size_t i = stages.size(); i-- > 0;) {
      for (auto* stores : {&stages[i].inner, &stages[i].outer})
        std::erase_if(*stores, [&](const StageStore& store) { return !read.count(store.buffer); });
      if (stages[i].inner.empty() && stages[i].outer.empty()) {
        stages.erase(stages.begin() + static_cast<long>(i));
        continue;
      }
      for (const Expr& e : loadsOf(stages[i])) read.insert(e.as<Load>()->buffer);
    }
  }
};

}  // namespace

bool hasReuse(const Stage& s) {
  for (const Accumulator& acc : s.accumulators)
    for (const Expr& value : acc.values)
      for (const Expr& e : loadsOf(value)) {
        const std::vector<std::string> vars = freeVars(e);
        for (const StageAxis& a : s.axes)
          if (!a.reduce && !std::ranges::count(vars, a.var)) return true;
      }
  return false;
}

std::vector<Stage> mergeStages(std::vector<Stage> stages, const std::set<std::string>& kept) {
  return Merger(std::move(stages), kept).run();
}

}  // namespace tektite
