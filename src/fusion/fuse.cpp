#include "fusion/fuse.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <unordered_set>

#include "fusion/absorb.h"
#include "fusion/apart.h"
#include "fusion/beside.h"
#include "fusion/clusters.h"
#include "fusion/cost.h"
#include "fusion/fences.h"
#include "fusion/layouts.h"
#include "fusion/narrow_crossings.h"
#include "fusion/peak.h"
#include "fusion/record.h"
#include "fusion/trials.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kCodeBudget = 400;        // nodes of one kernel: code and compile time stay linear
constexpr int kMostHeavy = 48;          // reductions and products of one kernel
constexpr double kLeastShare = 0.02;    // two long kernels are not planned together for less
constexpr double kLeastOfScans = 1e-6;  // seconds: phases of threads' work are not joined for less
constexpr int kCarefulRounds = 24;      // of cutting kernels that keep too much alive
constexpr int kMostRounds = 8;          // of planning again without some kernels
constexpr double kMostTime = 1.25;  // a plan may take so many times as long to need no more memory
constexpr long kMostLaunches = 2;   // or have so many times the launches

/// Is there a node of the input model that became several?
bool sharesOrigins(const Graph& g) {
  std::unordered_set<std::string_view> seen;
  return std::ranges::any_of(g.nodes, [&](const Node& n) {
    return !n.origin.empty() && !n.as<Const>() && !seen.insert(n.origin).second;
  });
}

class Fuser {
 public:
  Fuser(const Graph& g, const Target& target, const FusionOptions& options, PlanMemory& memory)
      : g_(g),
        target_(target),
        options_(options),
        clusters_(std::in_place, g, options),
        fences_(g, options),
        trials_(g, target, options, memory),
        apart_(g) {}

  Fused run() {
    if (options_.unfused)
      clusters_->joinOrigins();
    else
      joinByAllMoves();
    Fused out = record(
        g_, *clusters_, refusals_, [this](const Clusters::Body& b) { return trials_.planOf(b); },
        [this](int a, int b) { return why(a, b); });
    chooseLayouts(out.graph, [this](const Graph& body, const Orders& orders) {
      PlanResult r = planGroup(body, target_, options_, orders);
      trials_.steps += r.steps;
      return r;
    });
    if (beside_) out.ledger.pairs = beside_->pairs([this](int a, int b) { return why(a, b); });
    out.peakBytes = memoryOf(*clusters_, true).arena();
    out.steps = trials_.steps + clusters_->steps;
    return out;
  }

 private:
  const Graph& g_;
  const Target& target_;
  const FusionOptions& options_;
  std::optional<Clusters> clusters_;
  Fences fences_;
  Trials trials_;
  Refusals refusals_;
  /// Bytes that may be alive at once: unfused's. `exact`: maps overwrite what they read, scans' states count, as the arena is.
  struct Bound {
    int64_t bytes = 0;
    bool exact = false;
  };
  Bound bound_;
  bool again_ = false;  // joining what was cut for that
  Apart apart_;
  std::optional<Beside> beside_;

  const Trial& tried(const std::vector<int>& nodes) { return trials_.of(*clusters_, nodes); }
  double secondsOf(int c) { return trials_.secondsOf(*clusters_, c); }
  bool isAlone(int c) const { return clusters_->list[c].host || clusters_->list[c].alone; }
  bool hasScan(int c) const { return clusters_->list[c].scan; }
  int heavyOf(int c) const { return clusters_->list[c].heavy; }
  bool hasContract(int c) const { return clusters_->list[c].contract; }
  // ---- what is left apart: kernels that would keep more alive than unfused, or that were measured slower than their parts

  void joinByAllMoves() {
    FusionOptions options = options_;
    options.unfused = true;
    Clusters unfused(g_, options);
    unfused.joinOrigins();
    const Bound kept = {memoryOf(unfused, false).bytes(), false},
                least = {memoryOf(unfused, true).arena(), true};
    for (int round = 0; round < kMostRounds; round++) {
      for (auto& joined : joined_) joined.reset();
      planWithin(kept, least);
      stack();
      const auto slower = slowerThanParts(*clusters_, unfused, options_.profile.get());
      if (slower.empty()) return;
      for (const auto& [c, why] : slower)
        if (const auto& stack = beside_->partsOf(c); !stack.empty())
          apart_.keep(stack, why);  // its members may each be worth it
        else
          apart_.keep(clusters_->list[c].nodes, why);
    }
  }
  struct State {
    Clusters clusters;
    Refusals refusals;
    Apart apart;
    Beside beside;
  };
  std::optional<State> joined_[2];  // by all moves, before any cut; from whole nodes or not
  State state() const { return {*clusters_, refusals_, apart_, *beside_}; }
  void restore(const State& s) {
    clusters_.emplace(s.clusters);
    refusals_ = s.refusals;
    apart_.takeCuts(s.apart);
    beside_.emplace(s.beside);
  }
  /// A plan that needs no more than unfused does, if that costs little more than one that needs no more where all values are kept and what
  /// scans keep in caches is free.
  void planWithin(const Bound& kept, const Bound& least) {
    bound_ = kept;
    soonest();
    bound_ = least;
    if (fits()) return;
    const State before = state();
    const double seconds = allSeconds();
    const auto kernels = clusters_->alive();
    if (soonest() && allSeconds() < kMostTime * seconds &&
        clusters_->alive() < kMostLaunches * kernels)
      return;
    restore(before);
    bound_ = kept;
  }
  /// The sooner of two plans that keep no more alive than that, where the first one had to be cut for it. False: there is none but the
  /// nodes as they are.
  bool soonest() {
    const bool found = planned(false);
    if (found && (!apart_.hasCuts() || !sharesOrigins(g_))) return true;
    const State first = state();
    const double seconds = found ? allSeconds() : 0;
    if (planned(true)) {
      if (!found || allSeconds() < seconds) return true;
    } else if (!found) {
      begin(true);
      return false;
    }
    restore(first);
    return true;
  }
  bool mayJoin(int a, int b) const {
    return !isAlone(a) && !isAlone(b) && fitsCode(a, b) && !isCut(a, b) &&
           !apart_.between(clusters_->list[a].nodes, clusters_->list[b].nodes);
  }
  /// Kernels that have nothing in common, in one launch, where no more is alive at once for it.
  void stack() {
    if (!options_.mergeMove) return;
    beside_->joinLayers();
    while (beside_->takeApart(memory(), bound_.bytes)) continue;
  }
  double allSeconds() {
    double all = 0;
    for (int c = 0; c < static_cast<int>(clusters_->list.size()); c++)
      if (clusters_->list[c].alive && !clusters_->list[c].host) all += secondsOf(c);
    return all;
  }
  void join() {
    if (!options_.mergeMove && !options_.placeMove && !options_.inlineMove) return;
    joinChains();
    for (int c = 0; c < static_cast<int>(clusters_->list.size()); c++)
      if (clusters_->list[c].alive)
        for (int d : clusters_->list[c].after) consider(c, d);
    greedy();
    if (options_.mergeMove) beside_->joinReaders();
    if (options_.inlineMove) narrowCrossings(*clusters_, trials_);
  }
  /// All moves, and then cuts until no more is alive at once than unfused. `nodesWhole`: beginning with what unfused begins with, and
  /// cut only between that, so that there is a way.
  bool planned(bool nodesWhole) {
    if (std::optional<State>& joined = joined_[nodesWhole]) {
      restore(*joined);
    } else {
      begin(nodesWhole);
      join();
      joined.emplace(state());
    }
    for (int round = 0;; round++) {
      const PeakMemory memory = this->memory();
      if (memory.fits(bound_.bytes)) {
        if (round > 0) joinAgain();
        return true;
      }
      // the worst ones first: what a cut there frees may help the others
      const bool careful = round < kCarefulRounds;
      const std::vector<int> over = memory.over(careful ? memory.bytes() - 1 : bound_.bytes);
      std::vector<int> parts;
      for (int c : over)
        if (const int part = cut(memory, c, nodesWhole); part >= 0)
          parts.insert(parts.end(), {c, part});
      for (size_t i = 0; i < over.size() && parts.empty();
           i++)  // what it can't help is others' doing
        for (int c : memory.holding(over[i]))
          if (const int part = cut(memory, c, nodesWhole); part >= 0)
            parts.insert(parts.end(), {c, part});
      if (parts.empty()) return false;
      if (!careful) continue;
      for (int c : parts) considerAround(c);
      greedy();
    }
  }
  /// Cuts free more than need be: joins what was cut, the best gain first, as long as memory suffices.
  void joinAgain() {
    again_ = true;
    for (int c = 0; c < static_cast<int>(clusters_->list.size()); c++)
      if (clusters_->list[c].alive)
        for (int d : clusters_->list[c].after) consider(c, d);
    greedy();
    again_ = false;
  }
  PeakMemory memory() { return memoryOf(*clusters_, bound_.exact); }
  bool fits() { return memory().fits(bound_.bytes); }
  PeakMemory memoryOf(Clusters& clusters, bool exact) {
    return PeakMemory(g_, clusters, exact, [&, exact](int c) -> int64_t {
      const Cluster& one = clusters.list[c];
      if (one.host || (!one.scan && target_.kind != "gpu")) return 0;  // others keep nothing there
      const int64_t bytes = trials_.mainBytesOf(clusters, c);
      return one.scan && !exact && bytes <= target_.last().bytes ? 0 : bytes;
    });
  }
  /// Cuts a kernel where least is alive. Answers the new one, or -1.
  int cut(const PeakMemory& memory, int c, bool nodesWhole) {
    const std::vector<int> nodes = clusters_->list[c].nodes;
    for (const size_t p : memory.cuts(c)) {
      const std::vector<int> first(nodes.begin(), nodes.begin() + static_cast<long>(p)),
          second(nodes.begin() + static_cast<long>(p), nodes.end());
      if (belongTogether(first, second, nodesWhole)) continue;
      if (tried(first).refusal.reason != Reason::None ||
          tried(second).refusal.reason != Reason::None)
        continue;
      apart_.cut(first, second,
                 {Reason::TooBigForLevel, static_cast<double>(memory.bytes()),
                  static_cast<double>(bound_.bytes), target_.levels.back().name});
      return clusters_->split(c, p);
    }
    return -1;
  }
  bool belongTogether(const std::vector<int>& first, const std::vector<int>& second,
                      bool nodesWhole) const {
    std::set<std::string> origins;
    for (int n : first)
      if (nodesWhole && !g_.nodes[n].origin.empty()) origins.insert(g_.nodes[n].origin);
    return fences_.together(first, second) || std::ranges::any_of(second, [&](int n) {
             return origins.count(g_.nodes[n].origin) > 0;
           });
  }
  void begin(bool nodesWhole) {
    const int64_t steps = clusters_->steps;
    clusters_.emplace(g_, options_);
    clusters_->steps = steps;
    refusals_.clear();
    apart_.forgetCuts();
    beside_.emplace(g_, target_, *clusters_, trials_,
                    [this](int a, int b) { return mayJoin(a, b); });
    if (nodesWhole) clusters_->joinOrigins();
    joinForced();
  }
  // ---- what the user wants together, with all that lies between

  void joinForced() {
    for (const Fences::Pair& p : fences_.forced()) {
      const int a = fences_.join(p, *clusters_);
      if (const Trial& t = tried(clusters_->list[a].nodes); t.refusal.reason != Reason::None)
        userError("fuse: {} and {} can't be one kernel: {}", p.fromName, p.toName,
                  toText(t.refusal));
    }
  }
  bool isCut(int a, int b) const {
    return fences_.between(clusters_->list[a].nodes, clusters_->list[b].nodes);
  }
  // ---- maps at the points of what they read: always a gain

  void joinChains() {
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      const Node& node = g_.nodes[n];
      const bool squeeze = isSqueeze(g_, node);
      if ((!node.as<Map>() && !squeeze) || clusters_->of[n] < 0) continue;
      for (const Value& v : node.operands) {
        const Node& from = g_.nodes[v.node];
        const int a = clusters_->of[v.node], b = clusters_->of[n];
        if (a < 0 || a == b ||
            (!squeeze && !(from.results[v.result].shape == node.results[0].shape)))
          continue;
        if (!from.as<Map>() && !isSqueeze(g_, from) && !from.as<Reduce>() && !from.as<Contract>())
          continue;
        if (heavyOf(a) + heavyOf(b) > 1 || !fitsCode(a, b) || isCut(a, b) ||
            apart_.between(clusters_->list[a].nodes, clusters_->list[b].nodes) ||
            clusters_->wayRound(a, b) >= 0)
          continue;
        clusters_->merge(a, b);
      }
    }
  }
  bool fitsCode(int a, int b) const {
    return clusters_->list[a].nodes.size() + clusters_->list[b].nodes.size() <= kCodeBudget &&
           heavyOf(a) + heavyOf(b) <= kMostHeavy;
  }
  Refusal tooMuchCode(int a, int b) const {
    const size_t nodes = clusters_->list[a].nodes.size() + clusters_->list[b].nodes.size();
    if (nodes <= kCodeBudget)
      return {Reason::CodeSize, static_cast<double>(heavyOf(a) + heavyOf(b)), kMostHeavy, ""};
    return {Reason::CodeSize, static_cast<double>(nodes), kCodeBudget, ""};
  }
  // ---- the best gain first

  struct Candidate {
    double gain, seconds;
    int a, b, versionA, versionB;
    size_t nodes;
    /// Equal gains: the smaller kernels first. So layers of one kind join in pairs, and pairs of pairs, and each of these is planned once.
    bool operator<(const Candidate& o) const {
      return gain != o.gain ? gain < o.gain
                            : std::tuple(nodes, a, b) > std::tuple(o.nodes, o.a, o.b);
    }
  };
  std::priority_queue<Candidate> queue_;
  /// To what sums of times are good for: equal gains are to be equal.
  static double rounded(double seconds) { return static_cast<double>(static_cast<float>(seconds)); }

  void greedy() {
    while (!queue_.empty()) {
      const Candidate c = queue_.top();
      queue_.pop();
      const auto &a = clusters_->list[c.a], &b = clusters_->list[c.b];
      if (!a.alive || !b.alive || a.version != c.versionA || b.version != c.versionB) continue;
      if (const int way = clusters_->wayRound(c.a, c.b); way >= 0) {
        refuse(c.a, c.b, {Reason::Cycle, 0, 0, nameOf(way)});
        continue;
      }
      if (again_ &&
          clusters_->leastAlive(clusters_->together(c.a, c.b), bound_.exact) > bound_.bytes)
        continue;
      std::optional<Clusters> before;
      if (again_) before.emplace(*clusters_);
      clusters_->merge(c.a, c.b, c.seconds);
      if (!again_ || fits())
        considerAround(c.a);
      else
        clusters_.emplace(*before);
    }
  }
  void considerAround(int c) {
    if (!clusters_->list[c].alive) return;
    const std::set<int> before = clusters_->list[c].before, after = clusters_->list[c].after;
    for (int d : before) consider(d, c);
    for (int d : after) consider(c, d);
  }
  std::string nameOf(int c) const { return ledgerName(g_, clusters_->list[c].nodes.front()); }
  void refuse(int a, int b, Refusal r) {
    for (int m : clusters_->list[b].nodes)
      for (const Value& v : clusters_->sources(m))
        if (clusters_->of[v.node] == a) refusals_[{v.node, m}] = r;
  }

  void consider(int a, int b) {
    for (int c : {a, b})
      if (isAlone(c) && !hasScan(c)) return;
    const bool scan = hasScan(a) || hasScan(b);
    if (scan && !(hasScan(a) && hasScan(b)) && target_.launchSeconds < kLeastOfScans)
      return refuse(a, b, {Reason::NoGain, 0, 0, "a launch is cheap "});
    if (isCut(a, b)) return refuse(a, b, {Reason::UserFence, 0, 0, ""});
    if (const auto r = apart_.between(clusters_->list[a].nodes, clusters_->list[b].nodes);
        r && !(again_ && r->reason == Reason::TooBigForLevel))
      return refuse(a, b, *r);
    if (!fitsCode(a, b)) return refuse(a, b, tooMuchCode(a, b));
    const double apart = secondsOf(a) + secondsOf(b);
    const bool inTurn = scan && target_.hasExplicitMemory();  // cheap to plan
    if (hasContract(a) && hasContract(b) && !inTurn)
      if (const double most = mostGain(a); most < kLeastShare * apart)
        return refuse(a, b, {Reason::NoGain, apart, apart - most, "at best "});
    if (const int way = clusters_->wayRound(a, b); way >= 0)
      return refuse(a, b, {Reason::Cycle, 0, 0, nameOf(way)});
    const Trial& t = tried(clusters_->together(a, b));
    const Refusal r = trials_.verdict(t, apart);
    if (r.reason != Reason::None) return refuse(a, b, r);
    if (scan && apart - t.seconds < kLeastOfScans)
      return refuse(a, b, {Reason::NoGain, apart, t.seconds, ""});
    queue_.push({rounded(apart - t.seconds), t.seconds, a, b, clusters_->list[a].version,
                 clusters_->list[b].version,
                 clusters_->list[a].nodes.size() + clusters_->list[b].nodes.size()});
  }
  /// The reason of a pair that no move asked about: what the oracle says of it now.
  Refusal why(int a, int b) {
    if (options_.unfused || isCut(a, b)) return {Reason::UserFence, 0, 0, ""};
    if (const auto r = apart_.between(clusters_->list[a].nodes, clusters_->list[b].nodes))
      return *r;
    if (const int way = clusters_->wayRound(a, b); way >= 0)
      return {Reason::Cycle, 0, 0, nameOf(way)};
    const double apart = secondsOf(a) + secondsOf(b);
    if (!fitsCode(a, b)) return tooMuchCode(a, b);
    const Trial& t = tried(clusters_->together(a, b));
    const Refusal r = trials_.verdict(t, apart);
    return r.reason != Reason::None ? r : Refusal{Reason::NoGain, apart, t.seconds, ""};
  }
  /// What one kernel of both can save at best: a launch, and moving what goes between them.
  double mostGain(int a) const {
    double seconds = target_.launchSeconds;
    for (const Value& v : clusters_->neededOutside(clusters_->list[a].nodes)) {
      const double n = static_cast<double>(g_.type(v).elements()) * bytes(g_.type(v).dtype);
      seconds += 2.5 * moveSeconds(n, n, target_.cores, target_);
    }
    return seconds;
  }
};

}  // namespace

Fused fuse(const Graph& in, const Target& target, const FusionOptions& options) {
  Graph g = in;
  for (size_t n = 0; n < g.nodes.size(); n++)
    if (g.nodes[n].as<Group>())
      userError("node '%{}': found a group, expected a graph that is not fused yet", n);
  for (Node& n : g.nodes)  // a map of nothing to one number is a constant
    if (const Map* m = n.as<Map>(); m && n.operands.empty() && m->body.as<Imm>())
      n.kind = Const{nullptr, Expr(m->body)};
  PlanMemory memory;
  if (!options.unfused) g = absorbIntoScans(g, target, options, memory);
  return Fuser(g, target, options, memory).run();
}

}  // namespace tektite
