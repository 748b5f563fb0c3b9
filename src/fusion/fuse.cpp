#include "fusion/fuse.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "fusion/absorb.h"
#include "fusion/clusters.h"
#include "fusion/cost.h"
#include "fusion/fences.h"
#include "fusion/layouts.h"
#include "fusion/peak.h"
#include "fusion/record.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kCodeBudget = 400;        // nodes of one kernel: code and compile time stay linear
constexpr int kMostHeavy = 48;          // reductions and products of one kernel
constexpr double kLeastShare = 0.02;    // two long kernels are not planned together for less
constexpr double kLeastOfScans = 1e-6;  // seconds: phases of threads' work are not joined for less
constexpr int kMostReaders = 12;        // of one value, whose pairs are tried side by side
constexpr int kMostRounds = 8;          // of planning again without some kernels

/// What the oracle said of a set of nodes.
struct Trial {
  double seconds = 0;
  Cost cost;
  double tiles = 1;
  Refusal refusal;  // they can't be one kernel at all
};

struct OfValue {
  size_t operator()(const Value& v) const {
    return static_cast<size_t>(v.node) * 31 + static_cast<size_t>(v.result);
  }
};

class Fuser {
 public:
  Fuser(const Graph& g, const Target& target, const FusionOptions& options)
      : g_(g),
        target_(target),
        options_(options),
        clusters_(std::in_place, g, options),
        fences_(g, options),
        access_(accessesOf(g)) {
    nodeHash_.reserve(g.nodes.size());
    for (const Node& n : g.nodes) nodeHash_.push_back(kindHash(n));
    heavy_.resize(g.nodes.size());
    for (size_t n = 0; n < g.nodes.size(); n++)
      heavy_[n] = g.nodes[n].as<Reduce>() || g.nodes[n].as<Contract>();
  }

  Fused run() {
    if (options_.unfused)
      clusters_->joinOrigins();
    else
      joinByAllMoves();
    Fused out = record(
        g_, *clusters_, refusals_, [this](const Clusters::Body& b) { return planOf(b); },
        [this](int a, int b) { return why(a, b); });
    chooseLayouts(out.graph, [this](const Graph& body, const Orders& orders) {
      PlanResult r = planGroup(body, target_, options_, orders);
      steps_ += r.steps;
      return r;
    });
    out.peakBytes = peakOf(g_, *clusters_).bytes;
    out.steps = steps_ + clusters_->steps;
    return out;
  }

 private:
  const Graph& g_;
  const Target& target_;
  const FusionOptions& options_;
  std::optional<Clusters> clusters_;
  Fences fences_;
  AccessOf access_;
  std::vector<Hash> nodeHash_;
  std::vector<bool> heavy_;
  std::unordered_map<Hash, Trial> trials_;
  std::unordered_map<Hash, std::shared_ptr<const GroupPlan>> plans_;
  Refusals refusals_;
  std::unordered_map<Value, uint64_t, OfValue> numbers_;  // of keyOf, which keeps its memory
  std::vector<int> apart_;  // of each node: 1 + the place in whyApart_ of the reason; 0: none
  std::vector<Refusal> whyApart_;
  int64_t steps_ = 0;

  static Hash kindHash(const Node& n) {
    Node bare = n;
    bare.operands.clear();
    if (const Const* c = n.as<Const>(); c && c->data) {
      if (const Expr value = scalarConstant(n)) return value.hash();
      bare.kind = Input{};
      return Hasher().add(hashOf(bare)).add(7).finish();
    }
    return hashOf(bare);
  }
  /// What these nodes compute, whatever they are called and wherever they stand: equal sets are planned once.
  Hash keyOf(const std::vector<int>& inside, const std::vector<Value>& outputs) {
    Hasher h;
    // a scan's plan has the constants of its parts
    const bool scan = std::ranges::any_of(inside, [&](int n) { return g_.nodes[n].as<Scan>(); });
    numbers_.clear();
    uint64_t next = 0;
    for (int n : inside) {
      h.add(nodeHash_[n]);
      for (const Value& v : g_.nodes[n].operands) {
        const auto [it, isNew] = numbers_.emplace(v, next);
        h.add(it->second);
        if (!isNew) continue;
        next++;
        const Const* c = g_.node(v).as<Const>();
        if (c)
          h.add(nodeHash_[v.node]);
        else {
          h.add(static_cast<uint64_t>(g_.type(v).dtype)).add(1);
          for (const Expr& e : g_.type(v).shape) h.add(e.hash());
        }
        if (scan && c && c->data) h.add(c->data->hash());
      }
      for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++)
        numbers_[Value{n, r}] = next++;
    }
    for (const Value& v : outputs) h.add(numbers_.at(v));
    return h.finish();
  }
  Hash keyOf(const Clusters::Body& b) {
    std::vector<int> inside;
    for (size_t i = 0; i < b.from.size(); i++)
      if (!b.graph.nodes[i].as<Input>() && !b.graph.nodes[i].as<Const>())
        inside.push_back(b.from[i]);
    return keyOf(inside, b.outputs);
  }
  AccessOf accessOfBody(const Clusters::Body& b) const {
    AccessOf out(b.from.size());
    for (size_t i = 0; i < b.from.size(); i++)
      if (!b.graph.nodes[i].as<Input>()) out[i] = access_[b.from[i]];
    return out;
  }
  std::shared_ptr<const GroupPlan> planOf(const Clusters::Body& b) {
    auto& plan = plans_[keyOf(b)];
    if (!plan) {
      const PlanResult r = planBody(b.graph, accessOfBody(b), target_, options_);
      steps_ += r.steps;
      TEKTITE_CHECK(r.plan, "no plan of one group: {}\n{}", toText(r.refusal), toText(b.graph));
      plan = r.plan;
    }
    return plan;
  }

  const Trial& tried(const std::vector<int>& nodes) {
    const Hash key = keyOf(clusters_->withRepeated(nodes), clusters_->neededOutside(nodes));
    if (const auto it = trials_.find(key); it != trials_.end()) return it->second;
    const Clusters::Body body = clusters_->bodyOf(nodes);
    Trial t;
    const PlanResult r = planBody(body.graph, accessOfBody(body), target_, options_);
    steps_ += r.steps;
    t.refusal = r.refusal;
    if (r.plan) {
      t.cost = r.plan->cost;
      t.seconds = t.cost.seconds;
      t.tiles = 0;
      for (const TileList& list : r.plan->lists) {
        double n = 1;
        for (const TileAxis& a : list.tiles)
          if (a.grid) n *= static_cast<double>(a.count());
        t.tiles += n;
      }
      plans_[key] = r.plan;
    }
    return trials_[key] = t;
  }
  double secondsOf(int c) {
    Cluster& cluster = clusters_->list[c];
    if (cluster.seconds < 0) cluster.seconds = tried(cluster.nodes).seconds;
    return cluster.seconds;
  }
  bool isAlone(int c) const { return clusters_->list[c].host || clusters_->list[c].alone; }
  bool hasScan(int c) const { return clusters_->list[c].scan; }
  int heavyOf(int c) const {
    return static_cast<int>(
        std::ranges::count_if(clusters_->list[c].nodes, [&](int n) { return heavy_[n]; }));
  }
  bool hasContract(int c) const {
    return std::ranges::any_of(clusters_->list[c].nodes,
                               [&](int n) { return g_.nodes[n].as<Contract>(); });
  }
  std::vector<int> together(int a, int b) const {
    std::vector<int> nodes;
    std::ranges::merge(clusters_->list[a].nodes, clusters_->list[b].nodes,
                       std::back_inserter(nodes));
    return nodes;
  }

  // ---- what is left apart: kernels that would keep more alive than unfused, or that were measured slower than their parts

  void joinByAllMoves() {
    FusionOptions options = options_;
    options.unfused = true;
    Clusters unfused(g_, options);
    unfused.joinOrigins();
    const int64_t most = peakOf(g_, unfused).bytes;
    apart_.assign(g_.nodes.size(), 0);
    bool nodesWhole = false;  // begin with what unfused begins with
    for (int round = 0; round < kMostRounds; round++) {
      begin(nodesWhole);
      if (options_.mergeMove || options_.placeMove || options_.inlineMove) {
        joinChains();
        greedy();
        sideBySide();
      }
      const size_t before = whyApart_.size();
      splitSlower(unfused);
      const Peak peak = peakOf(g_, *clusters_);
      if (peak.bytes <= most && whyApart_.size() == before) return;
      if (peak.bytes > most && nodesWhole)
        keepApart(peak.cluster, {Reason::TooBigForLevel, static_cast<double>(peak.bytes),
                                 static_cast<double>(most), target_.levels.back().name});
      nodesWhole |= peak.bytes > most;
    }
    begin(true);
  }
  void begin(bool nodesWhole) {
    const int64_t steps = clusters_->steps;
    clusters_.emplace(g_, options_);
    clusters_->steps = steps;
    refusals_.clear();
    if (nodesWhole) clusters_->joinOrigins();
    joinForced();
  }
  void keepApart(int cluster, Refusal why) {
    whyApart_.push_back(std::move(why));
    for (int n : clusters_->list[cluster].nodes) apart_[n] = static_cast<int>(whyApart_.size());
  }
  /// Why not, where both were in a kernel that is left apart.
  const Refusal* keptApart(int a, int b) const {
    if (whyApart_.empty()) return nullptr;
    for (int n : clusters_->list[a].nodes)
      for (int m : clusters_->list[b].nodes)
        if (apart_[n] && apart_[n] == apart_[m] &&
            (g_.nodes[n].origin.empty() || g_.nodes[n].origin != g_.nodes[m].origin))
          return &whyApart_[static_cast<size_t>(apart_[n] - 1)];
    return nullptr;
  }
  std::optional<double> measured(const Clusters& clusters, const std::vector<int>& nodes) const {
    const auto it = options_.profile->seconds.find(clusters.bodyOf(nodes).graph.hash());
    return it == options_.profile->seconds.end() ? std::nullopt : std::optional(it->second);
  }
  void splitSlower(const Clusters& unfused) {
    for (int c = 0; c < static_cast<int>(clusters_->list.size()) && options_.profile; c++) {
      const std::vector<int>& nodes = clusters_->list[c].nodes;
      if (!clusters_->list[c].alive || nodes.size() < 2 || isAlone(c)) continue;
      std::set<int> parts;
      for (int n : nodes)
        if (unfused.of[n] >= 0) parts.insert(unfused.of[n]);
      const std::optional<double> whole = measured(*clusters_, nodes);
      double apart = 0;
      bool known = whole && parts.size() > 1;
      for (int p : parts) {
        const std::optional<double> one =
            known ? measured(unfused, unfused.list[p].nodes) : std::nullopt;
        known = one.has_value();
        apart += one.value_or(0);
      }
      if (known && *whole > apart) keepApart(c, {Reason::NoGain, apart, *whole, "measured "});
    }
  }

  // ---- what the user wants together, with all that lies between

  void joinForced() {
    for (const Fences::Pair& p : fences_.forced()) {
      const int a = clusters_->of[p.from[0]];
      for (const std::vector<int>* nodes : {&p.from, &p.to})
        for (int n : *nodes) joinAll(p, a, clusters_->of[n]);
      if (const Trial& t = tried(clusters_->list[a].nodes); t.refusal.reason != Reason::None)
        userError("fuse: {} and {} can't be one kernel: {}", p.fromName, p.toName,
                  toText(t.refusal));
    }
  }
  void joinAll(const Fences::Pair& p, int a, int b) {
    if (a == b) return;
    for (int c : {a, b})
      if (isAlone(c))
        userError("fuse: {} and {} can't be one kernel: {} is no part of a kernel", p.fromName,
                  p.toName, nameOf(c));
    if (isCut(a, b))
      userError("fuse: {} and {} can't be one kernel: a cut lies between them", p.fromName,
                p.toName);
    for (int way = clusters_->wayRound(a, b); way >= 0; way = clusters_->wayRound(a, b))
      joinAll(p, a, way);
    clusters_->merge(a, b);
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
        if (heavyOf(a) + heavyOf(b) > 1 || !fitsCode(a, b) || isCut(a, b) || keptApart(a, b) ||
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
    double gain;
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
    for (int c = 0; c < static_cast<int>(clusters_->list.size()); c++)
      if (clusters_->list[c].alive)
        for (int d : clusters_->list[c].after) consider(c, d);
    while (!queue_.empty()) {
      const Candidate c = queue_.top();
      queue_.pop();
      const auto &a = clusters_->list[c.a], &b = clusters_->list[c.b];
      if (!a.alive || !b.alive || a.version != c.versionA || b.version != c.versionB) continue;
      if (const int way = clusters_->wayRound(c.a, c.b); way >= 0) {
        refuse(c.a, c.b, {Reason::Cycle, 0, 0, nameOf(way)});
        continue;
      }
      accept(c.a, c.b);
      const std::set<int> before = clusters_->list[c.a].before, after = clusters_->list[c.a].after;
      for (int d : before) consider(d, c.a);
      for (int d : after) consider(c.a, d);
    }
  }
  void accept(int a, int b) {
    const double seconds = tried(together(a, b)).seconds;
    clusters_->merge(a, b);
    clusters_->list[a].seconds = seconds;
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
    if (const Refusal* r = keptApart(a, b)) return refuse(a, b, *r);
    if (!fitsCode(a, b)) return refuse(a, b, tooMuchCode(a, b));
    const double apart = secondsOf(a) + secondsOf(b), most = mostGain(a, b);
    if (hasContract(a) && hasContract(b) && most < kLeastShare * apart)
      return refuse(a, b, {Reason::NoGain, apart, apart - most, "at best "});
    if (const int way = clusters_->wayRound(a, b); way >= 0)
      return refuse(a, b, {Reason::Cycle, 0, 0, nameOf(way)});
    const Trial& t = tried(together(a, b));
    const Refusal r = verdict(t, apart);
    if (r.reason != Reason::None) return refuse(a, b, r);
    if (scan && apart - t.seconds < kLeastOfScans)
      return refuse(a, b, {Reason::NoGain, apart, t.seconds, ""});
    queue_.push({rounded(apart - t.seconds), a, b, clusters_->list[a].version,
                 clusters_->list[b].version,
                 clusters_->list[a].nodes.size() + clusters_->list[b].nodes.size()});
  }
  /// The reason of a pair that no move asked about: what the oracle says of it now.
  Refusal why(int a, int b) {
    if (options_.unfused || isCut(a, b)) return {Reason::UserFence, 0, 0, ""};
    if (const Refusal* r = keptApart(a, b)) return *r;
    if (const int way = clusters_->wayRound(a, b); way >= 0)
      return {Reason::Cycle, 0, 0, nameOf(way)};
    const double apart = secondsOf(a) + secondsOf(b);
    if (!fitsCode(a, b)) return tooMuchCode(a, b);
    const Trial& t = tried(together(a, b));
    const Refusal r = verdict(t, apart);
    return r.reason != Reason::None ? r : Refusal{Reason::NoGain, apart, t.seconds, ""};
  }
  /// What one kernel of both can save at best: a launch, and moving what goes between them.
  double mostGain(int a, int b) const {
    double seconds = target_.launchSeconds;
    for (const Value& v : clusters_->neededOutside(clusters_->list[a].nodes)) {
      const double n = static_cast<double>(g_.type(v).elements()) * bytes(g_.type(v).dtype);
      seconds += 2.5 * moveSeconds(n, n, target_.cores, target_);
    }
    (void)b;
    return seconds;
  }
  Refusal verdict(const Trial& t, double apart) const {
    if (t.refusal.reason != Reason::None) return t.refusal;
    const Level* l2 = target_.level(target_.hasExplicitMemory() ? target_.scratch : "l2");
    const double room = static_cast<double>(l2 ? l2->bytes : target_.last().bytes);
    if (t.cost.recompute > t.cost.mostRecompute)
      return {Reason::Recompute, t.cost.recompute, t.cost.mostRecompute, ""};
    if (static_cast<double>(t.cost.scratchBytes) > room)
      return {Reason::TooBigForLevel, static_cast<double>(t.cost.scratchBytes), room,
              l2 ? l2->name : target_.last().name};
    if (t.cost.registers > 2 * target_.vectorRegisters)
      return {Reason::Registers, static_cast<double>(t.cost.registers),
              static_cast<double>(target_.vectorRegisters), ""};
    if (t.seconds < apart) return {};
    if (t.tiles < target_.cores)
      return {Reason::Parallelism, t.tiles, static_cast<double>(target_.cores), ""};
    return {Reason::NoGain, apart, t.seconds, ""};
  }

  // ---- kernels that don't need each other

  void sideBySide() {
    std::map<Value, std::set<int>> readers;
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      if (clusters_->of[n] < 0) continue;
      for (const Value& v : clusters_->sources(n)) readers[v].insert(n);
      for (const Value& v : g_.nodes[n].operands)
        if (g_.node(v).as<Input>()) readers[v].insert(n);
    }
    for (const auto& [value, nodes] : readers) {
      if (nodes.size() < 2 || nodes.size() > kMostReaders) continue;
      std::vector<int> all(nodes.begin(), nodes.end());
      for (size_t i = 0; i < all.size(); i++)
        for (size_t k = i + 1; k < all.size(); k++) {
          const int a = clusters_->of[all[i]], b = clusters_->of[all[k]];
          if (a == b || isAlone(a) || isAlone(b) || !fitsCode(a, b) || isCut(a, b) ||
              keptApart(a, b))
            continue;
          if (clusters_->list[a].after.count(b) || clusters_->list[b].after.count(a) ||
              clusters_->wayRound(a, b) >= 0)
            continue;
          const double apart = secondsOf(a) + secondsOf(b);
          const Trial& t = tried(together(a, b));
          if (verdict(t, apart).reason == Reason::None) accept(a, b);
        }
    }
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
  if (!options.unfused) g = absorbIntoScans(g, target, options);
  return Fuser(g, target, options).run();
}

}  // namespace tektite
