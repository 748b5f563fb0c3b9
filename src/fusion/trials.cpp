#include "fusion/trials.h"

#include <algorithm>

#include "fusion/cost.h"
#include "fusion/peak.h"
#include "support/check.h"

namespace tektite {
namespace {

Hash kindHash(const Node& n) {
  Node bare{.kind = n.kind, .operands = {}, .results = n.results, .name = {}, .origin = {}};
  if (const Const* c = n.as<Const>(); c && c->data) {
    if (const Expr value = scalarConstant(n)) return value.hash();
    bare.kind = Input{};
    return Hasher().add(hashOf(bare)).add(7).finish();
  }
  return hashOf(bare);
}

Hash typeHash(const TensorType& t) {
  Hasher h;
  h.add(static_cast<uint64_t>(t.dtype));
  for (const Expr& e : t.shape) h.add(e.hash());
  return h.finish();
}

double tilesOf(const std::vector<ListTime>& lists) {
  double n = 0;
  for (const ListTime& l : lists) n += l.tiles;
  return n;
}

}  // namespace

Trials::Trials(const Graph& g, const Target& target, const FusionOptions& options,
               PlanMemory& memory)
    : g_(g),
      target_(target),
      options_(options),
      memory_(memory),
      values_(g),
      access_(g.nodes.size()),
      numbers_(values_.size()),
      seen_(values_.size()) {
  nodeHash_.reserve(g.nodes.size());
  for (const Node& n : g.nodes) {
    nodeHash_.push_back(kindHash(n));
    for (const TensorType& t : n.results)
      valueHash_.push_back(n.as<Const>() ? nodeHash_.back() : typeHash(t));
  }
  findAccesses();
}

/// Equal nodes with operands of equal types, or constants, have one access form.
void Trials::findAccesses() {
  std::unordered_map<Hash, std::shared_ptr<const Access>> known;
  for (size_t n = 0; n < g_.nodes.size(); n++) {
    Hasher h;
    h.add(nodeHash_[n]);
    for (const Value& v : g_.nodes[n].operands)
      h.add(valueHash_[values_.of(v)]).add(typeHash(g_.type(v)));
    const auto [at, isNew] = known.try_emplace(h.finish());
    if (isNew) at->second = sharedAccess(g_, static_cast<int>(n));
    access_[n] = at->second;
  }
}

/// What these nodes compute, whatever they are called and wherever they stand.
Hash Trials::keyOf(const std::vector<int>& inside, const std::vector<Value>& outputs) {
  Hasher h;
  // a scan's plan has the constants of its parts
  const bool scan = std::ranges::any_of(inside, [&](int n) { return g_.nodes[n].as<Scan>(); });
  calls_++;
  uint64_t next = 0;
  for (int n : inside) {
    h.add(nodeHash_[n]);
    for (const Value& v : g_.nodes[n].operands) {
      const size_t at = values_.of(v);
      const bool isNew = seen_[at] != calls_;
      if (isNew) seen_[at] = calls_, numbers_[at] = next++;
      h.add(numbers_[at]);
      if (!isNew) continue;
      h.add(valueHash_[at]);
      const Const* c = scan ? g_.node(v).as<Const>() : nullptr;
      if (c && c->data) h.add(c->data->hash());
    }
    for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++) {
      const size_t at = values_.of({n, r});
      seen_[at] = calls_, numbers_[at] = next++;
    }
  }
  for (const Value& v : outputs) h.add(numbers_[values_.of(v)]);
  return h.finish();
}
Hash Trials::keyOf(const Clusters::Body& b) {
  std::vector<int> inside;
  for (size_t i = 0; i < b.from.size(); i++)
    if (!b.graph.nodes[i].as<Input>() && !b.graph.nodes[i].as<Const>()) inside.push_back(b.from[i]);
  return keyOf(inside, b.outputs);
}

AccessOf Trials::accessOfBody(const Clusters::Body& b) const {
  AccessOf out(b.from.size());
  for (size_t i = 0; i < b.from.size(); i++)
    if (!b.graph.nodes[i].as<Input>()) out[i] = access_[b.from[i]];
  return out;
}
Drafted Trials::drafted(const Clusters::Body& b) {
  Drafted d = draftBody(b.graph, accessOfBody(b), target_, options_, memory_);
  steps += d.steps;
  return d;
}

std::shared_ptr<const GroupPlan> Trials::planOf(const Clusters::Body& b) {
  const Hash key = keyOf(b);
  auto& plan = plans_[key];
  if (plan) return plan;
  if (const auto it = trials_.find(key); it != trials_.end())
    if (const auto draft = std::move(it->second.draft))
      return plan = std::move(*draft).plan(target_);
  Drafted d = drafted(b);
  TEKTITE_CHECK(d.draft, "no plan of one group: {}\n{}", toText(d.refusal), toText(b.graph));
  return plan = std::move(*d.draft).plan(target_);
}

const Trial& Trials::of(const Clusters& clusters, const std::vector<int>& nodes) {
  const Hash key = keyOf(clusters.withRepeated(nodes), clusters.neededOutside(nodes));
  if (const auto known = trials_.find(key); known != trials_.end()) return known->second;
  Drafted d = drafted(clusters.bodyOf(nodes));
  Trial& t = trials_[key];
  t.refusal = d.refusal;
  if (!d.draft) return t;
  t.cost = d.draft->cost;
  t.seconds = t.cost.seconds;
  t.lists = d.draft->times;
  t.tiles = tilesOf(t.lists);
  if (d.draft->made)
    plans_[key] = std::move(*d.draft).plan(target_);
  else
    t.draft = std::make_shared<Draft>(std::move(*d.draft));
  return t;
}

double Trials::secondsOf(Clusters& clusters, int c) {
  Cluster& cluster = clusters.list[c];
  if (cluster.seconds < 0) cluster.seconds = of(clusters, cluster.nodes).seconds;
  return cluster.seconds;
}

int64_t Trials::mainBytesOf(Clusters& clusters, int c) {
  Cluster& cluster = clusters.list[c];
  if (cluster.mainBytes < 0)
    cluster.mainBytes = of(clusters, cluster.nodes).refusal.reason != Reason::None
                            ? 0
                            : mainScratchOf(*planOf(clusters.bodyOf(cluster.nodes)), target_);
  return cluster.mainBytes;
}

Trial Trials::stacked(const Trial& a, const Trial& b) const {
  Trial t = a;
  t.draft.reset();
  t.lists.insert(t.lists.end(), b.lists.begin(), b.lists.end());
  addCounts(t.cost, b.cost);
  t.seconds = t.cost.seconds = target_.launchSeconds + secondsOfStack(t.lists, t.cost, target_);
  t.tiles = tilesOf(t.lists);
  return t;
}

Refusal Trials::verdict(const Trial& t, double apart) {
  Refusal r = judged(t, apart);
  if (r.reason != Reason::None) t.draft.reset();
  return r;
}
Refusal Trials::judged(const Trial& t, double apart) const {
  if (t.refusal.reason != Reason::None) return t.refusal;
  const Level& level = scratchLevel(target_);
  if (t.cost.recompute > t.cost.mostRecompute)
    return {Reason::Recompute, t.cost.recompute, t.cost.mostRecompute, ""};
  if (t.cost.scratchBytes > level.bytes)
    return {Reason::TooBigForLevel, static_cast<double>(t.cost.scratchBytes),
            static_cast<double>(level.bytes), level.name};
  if (t.cost.registers > 2 * target_.vectorRegisters)
    return {Reason::Registers, static_cast<double>(t.cost.registers),
            static_cast<double>(target_.vectorRegisters), ""};
  if (t.seconds < apart) return {};
  if (t.tiles < target_.cores)
    return {Reason::Parallelism, t.tiles, static_cast<double>(target_.cores), ""};
  return {Reason::NoGain, apart, t.seconds, ""};
}

}  // namespace tektite
