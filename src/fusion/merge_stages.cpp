#include "fusion/merge_stages.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "fusion/bind_axes.h"
#include "fusion/stage_bits.h"
#include "fusion/stages.h"
#include "ir/rewriter.h"
#include "support/check.h"

namespace tektite {
namespace {

const std::unordered_map<std::string, Expr> kNoNames;
const Ranges kNoRanges;
constexpr size_t kNone = static_cast<size_t>(-1);

class Merger {
 public:
  Merger(std::vector<FormedStage> stages, const std::set<std::string>& kept)
      : formed_(std::move(stages)), kept_(kept), known_(formed_.size()) {
    for (FormedStage& f : formed_) s_.push_back(std::move(f.stage));
    for (size_t i = 0; i < s_.size(); i++)
      for (const auto* stores : {&s_[i].inner, &s_[i].outer})
        for (const StageStore& store : *stores) {
          Writers& writers = writers_[store.buffer];
          if (std::ranges::count(writers, i)) continue;
          writers.push_back(i);
          known_[i].writes.push_back(&writers);
        }
    for (Known& k : known_) k.needs = k.neededBy = k.order = StageBits(s_.size());
    for (size_t i = 0; i < s_.size(); i++) {
      readAll(i, *formed_[i].loads);
      connect(i);
      known_[i].axes = axesOf(s_[i]);
      for (known_[i].points = 1; const StageAxis& a : s_[i].axes) known_[i].points *= a.extent;
    }
    for (size_t i = 0; i < s_.size(); i++)
      known_[i].needs.each([&](size_t d) {
        known_[i].order.add(d);
        known_[i].order.add(known_[d].order);
      });
  }

  std::vector<FormedStage> run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < s_.size(); i++)
        if (known_[i].alive) changed |= isMap(i) && (behind(i) || into(i));
      for (size_t i = 0; i < s_.size() && !changed; i++)
        for (size_t k = i + 1; k < s_.size() && known_[i].alive; k++)
          if (known_[k].alive) changed |= beside(i, k) || within(i, k) || within(k, i);
    }
    return sorted();
  }

 private:
  using Writers = std::vector<size_t>;  // several: each stores a part
  struct Read {
    Expr load;
    const Writers* writers;  // null: no stage stores it
    const std::string& buffer() const { return load.as<Load>()->buffer; }
    const std::vector<Expr>& index() const { return load.as<Load>()->index; }
    bool isFrom(size_t stage) const { return writers && std::ranges::count(*writers, stage); }
  };
  /// What is known of a stage as it is now.
  struct Known {
    bool alive = true;
    std::vector<Read> reads;  // of distinct elements
    std::vector<Writers*> writes;
    StageBits needs, neededBy;                  // directly
    StageBits order;                            // what it needs, directly or not
    Hash axes;                                  // their extents and kinds
    int64_t points = 0;                         // of the iteration space
    int version = 0;                            // counts its changes
    std::optional<bool> product;                // isContraction
    std::optional<std::vector<Hash>> elements;  // of the reads, over axes by number; ascending
  };
  std::vector<FormedStage> formed_;
  std::vector<Stage> s_;  // of them, as they are now
  const std::set<std::string>& kept_;
  std::vector<Known> known_;
  std::unordered_map<std::string, Writers> writers_;
  std::unordered_map<size_t, int> failed_;  // pairs that can't be joined, at these versions

  void readAll(size_t i, const std::vector<Expr>& loads) {
    known_[i].reads.clear();
    known_[i].reads.reserve(loads.size());
    for (const Expr& e : loads) {
      const auto it = writers_.find(e.as<Load>()->buffer);
      known_[i].reads.push_back({e, it == writers_.end() ? nullptr : &it->second});
    }
  }
  void connect(size_t i) {
    for (const Read& r : known_[i].reads)
      if (r.writers)
        for (size_t d : *r.writers)
          if (d != i) known_[i].needs.add(d), known_[d].neededBy.add(i);
  }
  static Hash axesOf(const Stage& s) {
    Hasher h;
    for (const StageAxis& a : s.axes) h.add(a.extent).add(static_cast<int>(a.reduce));
    return h.finish();
  }
  bool isMap(size_t i) const { return s_[i].accumulators.empty(); }
  /// A product of different loads of which one is used at several points of the space: to be left a nest of its own.
  bool isContraction(size_t i) {
    auto& known = known_[i].product;
    if (!known) known = multiplies(s_[i]) && hasReuse(s_[i]);
    return *known;
  }
  static bool multiplies(const Stage& s) {
    if (s.accumulators.size() != 1 || s.accumulators[0].combine.name != "sum") return false;
    const Apply* a = s.accumulators[0].values[0].as<Apply>();
    return a && a->op == Op::Mul && loadsOf(a->args[0]).size() == 1 &&
           loadsOf(a->args[1]).size() == 1 && !(a->args[0] == a->args[1]);
  }
  /// Does one that stage i needs, other than `d`, need d?
  bool needsAround(size_t i, size_t d) const {
    return known_[i].needs.any([&](size_t x) { return x != d && known_[x].order[d]; });
  }

  // ---- maps into what they read, or what reads them

  struct Joint {
    Binding binding;
    std::vector<std::pair<const std::vector<Expr>*, const std::vector<Expr>*>>
        indices;  // of what goes between: in the host, in the guest
  };
  /// Map i joins the nest of a reduction that it reads at its own point.
  bool behind(size_t i) {
    return known_[i].needs.any([&](size_t host) {
      return !isMap(host) && !needsAround(i, host) && joined(host, i, Place::Behind);
    });
  }
  /// Map i joins the nest of the first reader that reads it at every point of its own axes.
  bool into(size_t i) {
    return known_[i].neededBy.any([&](size_t host) {
      return !isContraction(host) && !needsAround(host, i) && joined(host, i, Place::Before);
    });
  }
  /// Where the guest's stores stand: at every point, read by the host or not, or behind the host's reductions.
  enum class Place : uint8_t { Before, Beside, Behind };
  /// One nest of both, if it can be.
  bool joined(size_t host, size_t guest, Place place) {
    const size_t pair = host * s_.size() + guest;
    const int versions = known_[host].version + known_[guest].version;
    if (const auto it = failed_.find(pair); it != failed_.end() && it->second == versions)
      return false;
    const auto joint = place == Place::Behind   ? jointBehind(guest, host)
                       : place == Place::Before ? jointInto(guest, host)
                                                : jointWithin(guest, host);
    if (joint && join(host, guest, *joint, place == Place::Behind)) return true;
    failed_[pair] = versions;
    return false;
  }
  /// Adds what one buffer says; false: it says no.
  bool add(std::optional<Joint>& joint, size_t host, const std::vector<Expr>& hostIndex,
           size_t guest, const std::vector<Expr>& guestIndex) const {
    auto now = bindAxes(hostIndex, s_[host], guestIndex, s_[guest]);
    if (!now) return false;
    if (!joint) joint = Joint{std::move(*now), {}};
    joint->indices.push_back({&hostIndex, &guestIndex});
    return true;
  }
  /// Null: none of these. From the last one on: what is read was mostly stored just before.
  static const StageStore* storeOf(const std::vector<StageStore>& stores,
                                   const std::string& buffer) {
    for (size_t i = stores.size(); i-- > 0;)
      if (stores[i].buffer == buffer) return &stores[i];
    return nullptr;
  }
  std::optional<Joint> jointBehind(size_t i, size_t host) const {
    std::optional<Joint> joint;
    for (const Read& r : known_[i].reads) {
      if (!r.isFrom(host)) continue;
      if (r.writers->size() > 1) return {};
      const StageStore* store = storeOf(s_[host].outer, r.buffer());
      if (!store || !add(joint, host, store->index, i, r.index())) return {};
    }
    const auto space = static_cast<size_t>(
        std::ranges::count_if(s_[host].axes, [](const StageAxis& a) { return !a.reduce; }));
    return joint && joint->binding.covers(space, s_[i]) ? joint : std::nullopt;
  }
  std::optional<Joint> jointInto(size_t i, size_t host) const {
    std::optional<Joint> joint;
    for (const Read& r : known_[host].reads) {
      if (!r.isFrom(i)) continue;
      if (r.writers->size() > 1) return {};
      if (!add(joint, host, r.index(), i, storeOf(s_[i].inner, r.buffer())->index)) return {};
    }
    return joint && joint->binding.covers(s_[host].axes.size(), s_[i]) ? joint : std::nullopt;
  }

  bool join(size_t host, size_t guest, const Joint& joint, bool behind) {
    const Binding& b = joint.binding;
    Ranges ranges;
    if (!b.renamesOnly()) addAxes(s_[host], ranges), addAxes(s_[guest], ranges);
    // the smaller of two stages is renamed, where that is all
    const auto stores = [](const Stage& s) { return s.inner.size() + s.outer.size(); };
    const auto back = stores(s_[guest]) > stores(s_[host]) ? b.inverse() : std::nullopt;
    Renaming ofHost(back ? *back : b.host, ranges), ofGuest(back ? kNoNames : b.guest, ranges);
    const auto renamed = [](Renaming& names, std::vector<Expr> index) {
      for (Expr& e : index) e = names(e);
      return index;
    };
    for (const auto& [h, g] : joint.indices)
      if (!sameIndex(renamed(ofHost, *h), renamed(ofGuest, *g))) return false;
    Stage &h = s_[host], &g = s_[guest];
    ofHost.apply(h);
    ofGuest.apply(g);
    for (StageAxis& a : h.axes)
      if (back && back->count(a.var)) a.var = back->at(a.var).as<Var>()->name;
    splitAxes(h, b);
    const size_t writer = behind ? host : guest;
    inlineStores(writer, behind ? h.outer : g.inner, behind ? guest : host);
    const bool same = readBoth(host, guest, ofHost, ofGuest, writer);
    if (behind) {
      append(h.outer, g.inner);
    } else {
      append(g.inner, h.inner);
      h.inner = std::move(g.inner);
    }
    if (!same) readAll(host, loadsOf(s_[host]));
    replace(host, guest);
    return true;
  }
  template <class T>
  static void append(std::vector<T>& to, std::vector<T>& from) {
    to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
  }
  /// What `writer` stores in place of what `reader` loads of it.
  void inlineStores(size_t writer, const std::vector<StageStore>& stores, size_t reader) {
    std::unordered_map<std::string_view, const StageStore*> read;
    for (const Read& r : known_[reader].reads)
      if (r.isFrom(writer)) read.emplace(r.buffer(), storeOf(stores, r.buffer()));
    Rewriter inlined([&](const Expr&, const Expr& e) -> Expr {
      const Load* l = e.as<Load>();
      const auto store = l ? read.find(l->buffer) : read.end();
      return store == read.end() ? Expr() : store->second->value;
    });
    change(s_[reader], std::ref(inlined));
  }
  /// What both read, but for what `writer`, one of them, passes on to the other. False: there an index is another one now.
  bool readBoth(size_t host, size_t guest, Renaming& ofHost, Renaming& ofGuest, size_t writer) {
    std::unordered_set<Hash> seen;
    std::vector<Read> reads;
    bool same = !ofHost.simplifies() && !ofGuest.simplifies();
    const auto isPassed = [&](const Expr& e) {
      const auto it = writers_.find(e.as<Load>()->buffer);
      return it != writers_.end() && std::ranges::count(it->second, writer) > 0;
    };
    for (const bool ofGuests : {true, false})
      for (Read& r : known_[ofGuests ? guest : host].reads) {
        if (r.isFrom(writer)) continue;
        for (const Expr& e : r.index()) same &= std::ranges::none_of(loadsOf(e), isPassed);
        r.load = ofGuests ? ofGuest(r.load) : ofHost(r.load);
        if (seen.insert(r.load.hash()).second) reads.push_back(std::move(r));
      }
    known_[host].reads = std::move(reads);
    return same;
  }

  /// The guest's stores are the host's now.
  void replace(size_t host, size_t guest) {
    Stage& merged = s_[host];
    if (merged.comment.find(s_[guest].comment) == std::string::npos)
      merged.comment += "+" + s_[guest].comment;
    Known &h = known_[host], &g = known_[guest];
    g.alive = false;
    h.version++;
    h.axes = axesOf(merged);
    h.product.reset();
    h.elements.reset();
    for (Writers* writers : g.writes) {
      std::erase(*writers, guest);
      if (std::ranges::count(*writers, host)) continue;
      writers->push_back(host);
      h.writes.push_back(writers);
    }
    g.neededBy.each([&](size_t x) { known_[x].needs.remove(guest), known_[x].needs.add(host); });
    h.neededBy.add(g.neededBy);
    g.needs.each([&](size_t d) { known_[d].neededBy.remove(guest); });
    h.needs.each([&](size_t d) { known_[d].neededBy.remove(host); });
    h.needs.clear();
    connect(host);
    h.neededBy.remove(guest), h.neededBy.remove(host);
    h.order.add(g.order);
    h.order.remove(guest);
    h.order.remove(host);
    for (Known& x : known_)
      if (x.alive && (x.order[guest] || x.order[host])) {
        x.order.add(h.order);
        x.order.add(host);
      }
  }

  // ---- nests that don't need each other

  /// Two nests of equal axes that read the same element somewhere, neither needing the other.
  bool beside(size_t a, size_t b) {
    if (known_[a].axes != known_[b].axes || known_[a].order[b] || known_[b].order[a] ||
        isContraction(a) || isContraction(b) || !shares(elementsOf(a), elementsOf(b)))
      return false;
    Stage &left = s_[a], &right = s_[b];
    std::unordered_map<std::string, Expr> names;
    for (size_t i = 0; i < left.axes.size(); i++) names[right.axes[i].var] = var(left.axes[i].var);
    Renaming ofLeft(kNoNames, kNoRanges), ofRight(names, kNoRanges);
    ofRight.apply(right);
    readBoth(a, b, ofLeft, ofRight, kNone);
    append(left.inner, right.inner);
    append(left.accumulators, right.accumulators);
    append(left.outer, right.outer);
    replace(a, b);
    return true;
  }
  /// A map joins a nest of as many points that reads the same element at each of them, neither needing the other: the map's axes
  /// may be reduced there, or split otherwise. Not one that stores in another order than it reads: its nest is laid out for that.
  bool within(size_t host, size_t guest) {
    return isMap(guest) && known_[host].alive && known_[guest].alive &&
           known_[host].points == known_[guest].points && !known_[host].order[guest] &&
           !known_[guest].order[host] && !isContraction(host) && joined(host, guest, Place::Beside);
  }
  std::optional<Joint> jointWithin(size_t i, size_t host) const {
    for (const Read& mine : known_[i].reads)
      for (const Read& its : known_[host].reads) {
        if (mine.buffer() != its.buffer() || !sameOrder(mine.index(), s_[i].inner[0].index, s_[i]))
          continue;
        std::optional<Joint> joint;
        if (add(joint, host, its.index(), i, mine.index()) &&
            joint->binding.covers(s_[host].axes.size(), s_[i]))
          return joint;
      }
    return {};
  }
  const std::vector<Hash>& elementsOf(size_t i) {
    auto& elements = known_[i].elements;
    if (elements) return *elements;
    std::unordered_map<std::string, Expr> names;
    for (size_t a = 0; a < s_[i].axes.size(); a++)
      names[s_[i].axes[a].var] = var("#" + std::to_string(a));
    Rewriter renamed = substituting(names);
    elements.emplace();
    for (const Read& r : known_[i].reads)
      if (!freeVars(r.load).empty()) elements->push_back(renamed(r.load).hash());
    std::ranges::sort(*elements);
    return *elements;
  }
  static bool shares(const std::vector<Hash>& a, const std::vector<Hash>& b) {
    for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
      if (*x == *y) return true;
      ++(*x < *y ? x : y);
    }
    return false;
  }

  // ---- the result

  /// Topological order, by the order of creation where there is a choice; without stores that nobody reads.
  std::vector<FormedStage> sorted() {
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
    std::vector<int> missing(s_.size());
    for (size_t i = 0; i < s_.size(); i++) {
      known_[i].needs.each([&](size_t) { missing[i]++; });
      if (known_[i].alive && !missing[i]) ready.push(i);
    }
    std::vector<FormedStage> out;
    while (!ready.empty()) {
      const size_t i = ready.top();
      ready.pop();
      out.push_back({std::move(s_[i])});
      if (known_[i].version == 0) {
        out.back().loads = std::move(formed_[i].loads);
        out.back().key = formed_[i].key;
      }
      known_[i].neededBy.each([&](size_t x) {
        if (--missing[x] == 0) ready.push(x);
      });
    }
    prune(out);
    return out;
  }
  void prune(std::vector<FormedStage>& stages) const {
    std::set<std::string> read = kept_;
    for (size_t i = stages.size(); i-- > 0;) {
      Stage& s = stages[i].stage;
      size_t erased = 0;
      for (auto* stores : {&s.inner, &s.outer})
        erased += std::erase_if(*stores,
                                [&](const StageStore& store) { return !read.count(store.buffer); });
      if (s.inner.empty() && s.outer.empty()) {
        stages.erase(stages.begin() + static_cast<long>(i));
        continue;
      }
      if (erased) stages[i] = {std::move(s)};
      if (!stages[i].loads)
        stages[i].loads = std::make_shared<const std::vector<Expr>>(loadsOf(stages[i].stage));
      for (const Expr& e : *stages[i].loads) read.insert(e.as<Load>()->buffer);
    }
  }
};

}  // namespace

std::vector<FormedStage> mergeStages(std::vector<FormedStage> stages,
                                     const std::set<std::string>& kept) {
  return Merger(std::move(stages), kept).run();
}

}  // namespace tektite
