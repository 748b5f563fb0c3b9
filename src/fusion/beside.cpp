#include "fusion/beside.h"

#include <algorithm>

#include "fusion/access.h"
#include "fusion/fences.h"
#include "fusion/peak.h"

namespace tektite {
namespace {

constexpr size_t kMostReaders = 12;  // of one value, whose pairs are all tried
constexpr size_t kMostOpen = 4;  // kernels of a layer, or of more readers, that may take one more

}  // namespace

Beside::Beside(const Graph& g, const Target& target, Clusters& clusters, Trials& trials,
               std::function<bool(int, int)> mayJoin)
    : g_(g), target_(target), clusters_(clusters), trials_(trials), mayJoin_(std::move(mayJoin)) {}

size_t Beside::note(int a, int b, const Refusal& refusal) {
  const int from = clusters_.list[a].nodes.front(), to = clusters_.list[b].nodes.front();
  const bool joins = refusal.reason == Reason::None;
  pairs_.push_back({.from = {from, 0},
                    .to = to,
                    .fromName = ledgerName(g_, from),
                    .toName = ledgerName(g_, to),
                    .verdict = joins ? Verdict::Merged : Verdict::Unfused,
                    .refusal = refusal,
                    .beside = true,
                    .launchesSaved = joins});
  return pairs_.size() - 1;
}

std::vector<Edge> Beside::pairs(const std::function<Refusal(int, int)>& why) const {
  std::map<std::pair<Value, int>, Edge> out;
  for (Edge e : pairs_) {
    const int a = clusters_.of[e.from.node], b = clusters_.of[e.to];
    if (a < 0 || b < 0) continue;  // its readers repeat it since: it stands for no kernel
    if (a != b && e.verdict == Verdict::Merged) e.refusal = why(a, b), e.launchesSaved = 0;
    e.verdict = a == b ? Verdict::Merged : Verdict::Unfused;
    out[{e.from, e.to}] = std::move(e);
  }
  std::vector<Edge> all;
  for (auto& [nodes, e] : out) all.push_back(std::move(e));
  return all;
}

// ---- readers of one value

/// The graph's inputs that a node reads, itself or through repeated nodes.
std::set<Value> Beside::inputsOf(int n) const {
  std::set<Value> out;
  std::vector<int> open{n};
  while (!open.empty()) {
    const int m = open.back();
    open.pop_back();
    for (const Value& v : g_.nodes[m].operands)
      if (g_.node(v).as<Input>())
        out.insert(v);
      else if (clusters_.repeated(v.node))
        open.push_back(v.node);
  }
  return out;
}

void Beside::joinReaders() {
  std::map<Value, std::set<int>> readers;
  for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
    if (clusters_.of[n] < 0) continue;
    for (const Value& v : clusters_.sources(n)) readers[v].insert(n);
    for (const Value& v : inputsOf(n)) readers[v].insert(n);
  }
  for (const auto& [value, nodes] : readers) {
    std::set<int> found;
    for (const int n : nodes) found.insert(clusters_.of[n]);
    const std::vector<int> clusters(found.begin(), found.end());
    if (clusters.size() <= kMostReaders)
      joinBest(clusters);
    else
      joinInTurn(clusters);
  }
}
std::optional<double> Beside::gainOf(int a, int b) {
  if (a == b || !mayJoin_(a, b)) return {};
  if (clusters_.list[a].after.count(b) || clusters_.list[b].after.count(a) ||
      clusters_.wayRound(a, b) >= 0)
    return {};
  const double apart = trials_.secondsOf(clusters_, a) + trials_.secondsOf(clusters_, b);
  const Trial& t = trials_.of(clusters_, clusters_.together(a, b));
  const Refusal refusal = trials_.verdict(t, apart);
  note(a, b, refusal);
  return refusal.reason == Reason::None ? std::optional(apart - t.seconds) : std::nullopt;
}
/// All pairs are tried, the best gain first; equal ones in their order.
void Beside::joinBest(const std::vector<int>& clusters) {
  std::map<std::pair<int, int>, float>
      gains;  // equal gains are to be equal: to what sums are good for
  const auto look = [&](int a, int b) {
    if (const auto gain = gainOf(a, b)) gains[{a, b}] = static_cast<float>(*gain);
  };
  for (size_t i = 0; i < clusters.size(); i++)
    for (size_t k = i + 1; k < clusters.size(); k++) look(clusters[i], clusters[k]);
  while (!gains.empty()) {
    const auto best = std::ranges::max_element(gains, {}, [](const auto& g) { return g.second; });
    const auto [a, b] = best->first;
    gains.erase(best);
    if (!gainOf(a, b)) continue;  // what was joined since may stand between
    clusters_.merge(a, b, trials_.of(clusters_, clusters_.together(a, b)).seconds);
    std::erase_if(gains, [&](const auto& g) {
      const auto [x, y] = g.first;
      return x == a || y == a || x == b || y == b;
    });
    for (const int c : clusters)
      if (clusters_.list[c].alive && c != a) look(std::min(a, c), std::max(a, c));
  }
}
/// Of many: each joins the first of a few kernels that gains by it.
void Beside::joinInTurn(const std::vector<int>& clusters) {
  std::vector<int> open;
  for (const int c : clusters) {
    if (!clusters_.list[c].alive) continue;
    const auto into = std::ranges::find_if(open, [&](int o) { return gainOf(o, c).has_value(); });
    if (into != open.end()) {
      clusters_.merge(*into, c, trials_.of(clusters_, clusters_.together(*into, c)).seconds);
      continue;
    }
    if (open.size() == kMostOpen) open.erase(open.begin());
    open.push_back(c);
  }
}

std::vector<std::vector<int>> Beside::partsOf(int cluster) const {
  const auto it = stacks_.find(cluster);
  return it == stacks_.end() ? std::vector<std::vector<int>>{} : it->second.parts;
}

// ---- kernels that have nothing in common

void Beside::joinLayers() {
  for (const bool fromEnd : {false, true})
    for (const std::vector<int>& layer : layers(fromEnd)) stackLayer(layer);
}

std::vector<std::vector<int>> Beside::layers(bool fromEnd) const {
  std::vector<int> order = clusters_.order(), depth(clusters_.list.size());
  if (fromEnd) std::ranges::reverse(order);
  std::vector<std::vector<int>> out;
  for (const int c : order) {
    const Cluster& one = clusters_.list[c];
    for (const int d : fromEnd ? one.after : one.before)
      depth[c] = std::max(depth[c], depth[d] + 1);
    if (static_cast<int>(out.size()) <= depth[c]) out.resize(static_cast<size_t>(depth[c]) + 1);
    if (!one.host && !one.alone) out[static_cast<size_t>(depth[c])].push_back(c);
  }
  for (std::vector<int>& layer : out)
    std::ranges::sort(layer, {}, [&](int c) { return clusters_.list[c].nodes.front(); });
  return out;
}

/// What two kernels would share, were they one.
std::set<Value> Beside::readsOf(int c) const {
  std::set<Value> out;
  for (const int n : clusters_.withRepeated(clusters_.list[c].nodes))
    for (const Value& v : g_.nodes[n].operands)
      if (!scalarConstant(g_.node(v))) out.insert(v);
  return out;
}

void Beside::stackLayer(const std::vector<int>& layer) {
  if (layer.size() < 2) return;
  std::vector<Member> open;
  for (const int c : layer) {
    Member one{c, {}, {}};
    if (std::ranges::any_of(open, [&](Member& o) { return stack(o, one); })) continue;
    if (open.size() == kMostOpen) open.erase(open.begin());
    open.push_back(std::move(one));
  }
}
void Beside::look(Member& m) {
  if (m.trial) return;
  m.trial = trials_.of(clusters_, clusters_.list[m.cluster].nodes);
  m.reads = readsOf(m.cluster);
}

bool Beside::stack(Member& onto, Member& one) {
  const int into = onto.cluster, c = one.cluster;
  if (!mayJoin_(into, c)) return false;
  for (Member* m : {&onto, &one}) look(*m);
  if (onto.trial->lists.empty() || one.trial->lists.empty() ||
      std::ranges::any_of(one.reads, [&](const Value& v) { return onto.reads.count(v) > 0; }))
    return false;
  Trial both = trials_.stacked(*onto.trial, *one.trial), costed = both;
  costed.seconds += lostInStack(onto.trial->cost, one.trial->cost, target_);
  const Refusal refusal = trials_.verdict(costed, onto.trial->seconds + one.trial->seconds);
  const size_t pair = note(into, c, refusal);
  if (refusal.reason != Reason::None) return false;
  Stack& stack = stacks_[into];
  if (stack.parts.empty()) stack.parts.push_back(clusters_.list[into].nodes);
  if (const auto it = stacks_.find(c); it != stacks_.end()) {
    for (auto& part : it->second.parts) stack.parts.push_back(std::move(part));
    for (const size_t p : it->second.pairs) stack.pairs.push_back(p);
    stacks_.erase(it);
  } else {
    stack.parts.push_back(clusters_.list[c].nodes);
  }
  stack.pairs.push_back(pair);
  clusters_.merge(into, c, both.seconds);
  onto.trial = std::move(both);
  onto.reads.insert(one.reads.begin(), one.reads.end());
  return true;
}

bool Beside::takeApart(const PeakMemory& memory, int64_t most) {
  if (memory.fits(most)) return false;
  std::set<int> found;
  for (const int c : memory.over(most)) {
    if (stacks_.count(c)) found.insert(c);
    for (const int d : memory.holding(c))
      if (stacks_.count(d)) found.insert(d);
  }
  for (const int c : found) {
    const Stack& stack = stacks_.at(c);
    for (size_t p = 1; p < stack.parts.size(); p++) clusters_.takeOut(c, stack.parts[p]);
    for (const size_t p : stack.pairs) {
      pairs_[p].verdict = Verdict::Unfused;
      pairs_[p].launchesSaved = 0;
      pairs_[p].refusal = {Reason::TooBigForLevel, static_cast<double>(memory.bytes()),
                           static_cast<double>(most), target_.levels.back().name};
    }
    stacks_.erase(c);
  }
  return !found.empty();
}

}  // namespace tektite
