#include "fusion/fences.h"

#include <algorithm>

#include "support/check.h"

namespace tektite {
namespace {

/// `must`: else there may be none.
std::vector<int> nodesNamed(const Graph& g, const std::string& name, const char* option,
                            bool must) {
  std::vector<int> out;
  for (int n = 0; n < static_cast<int>(g.nodes.size()); n++)
    if (!g.nodes[n].as<Input>() && !g.nodes[n].as<Const>() && ledgerName(g, n) == name)
      out.push_back(n);
  if (out.empty() && must)
    userError("{}: '{}' found, expected the name of a node that is there after the passes", option,
              name);
  return out;
}

std::vector<Fences::Pair> pairsOf(const Graph& g,
                                  const std::vector<std::pair<std::string, std::string>>& names,
                                  const char* option, bool mayMeanAll, bool must = true) {
  std::vector<Fences::Pair> out;
  for (auto [a, b] : names) {
    if (a == "*") std::swap(a, b);
    const bool all = b == "*";
    if (all && !mayMeanAll) userError("{}: '*' found, expected the name of a node", option);
    Fences::Pair pair{nodesNamed(g, a, option, must), {}, a, b};
    if (!all) pair.to = nodesNamed(g, b, option, must);
    if (!pair.from.empty() && (all || !pair.to.empty())) out.push_back(std::move(pair));
  }
  return out;
}

bool meets(const std::vector<int>& a, const std::vector<int>& b) {
  return std::ranges::any_of(a, [&](int n) { return std::ranges::binary_search(b, n); });
}

/// Has the set a node that isn't in the list?
bool leaves(const std::vector<int>& set, const std::vector<int>& list) {
  return std::ranges::any_of(set, [&](int n) { return !std::ranges::binary_search(list, n); });
}

}  // namespace

std::string ledgerName(const Graph& g, int node) {
  return g.nodes[node].origin.empty() ? "%" + std::to_string(node) : g.nodes[node].origin;
}

Fences::Fences(const Graph& g, const FusionOptions& options)
    : g_(g),
      cuts_(pairsOf(g, options.cut, "cut", true)),
      forced_(pairsOf(g, options.force, "fuse", false)) {
  for (Pair& p : pairsOf(g, options.modelCut, "cut", true, false)) cuts_.push_back(std::move(p));
  for (Pair& p : pairsOf(g, options.modelForce, "fuse", false, false))
    forced_.push_back(std::move(p));
}

bool Fences::between(const std::vector<int>& a, const std::vector<int>& b) const {
  const auto other = [](const Pair& p, const std::vector<int>& set) {
    return p.to.empty() ? leaves(set, p.from) : meets(set, p.to);
  };
  return std::ranges::any_of(cuts_, [&](const Pair& p) {
    return (meets(a, p.from) && other(p, b)) || (meets(b, p.from) && other(p, a));
  });
}

int Fences::join(const Pair& p, Clusters& clusters) const {
  const int a = clusters.of[p.from[0]];
  for (const std::vector<int>* nodes : {&p.from, &p.to})
    for (int n : *nodes) joinAll(p, clusters, a, clusters.of[n]);
  return a;
}
void Fences::joinAll(const Pair& p, Clusters& clusters, int a, int b) const {
  if (a == b) return;
  for (int c : {a, b})
    if (clusters.list[c].host || clusters.list[c].alone)
      userError("fuse: {} and {} can't be one kernel: {} is no part of a kernel", p.fromName,
                p.toName, ledgerName(g_, clusters.list[c].nodes.front()));
  if (between(clusters.list[a].nodes, clusters.list[b].nodes))
    userError("fuse: {} and {} can't be one kernel: a cut lies between them", p.fromName, p.toName);
  for (int way = clusters.wayRound(a, b); way >= 0; way = clusters.wayRound(a, b))
    joinAll(p, clusters, a, way);
  clusters.merge(a, b);
}

bool Fences::together(const std::vector<int>& a, const std::vector<int>& b) const {
  const auto part = [](const Pair& p, const std::vector<int>& set) {
    return meets(set, p.from) || meets(set, p.to);
  };
  return std::ranges::any_of(forced_, [&](const Pair& p) { return part(p, a) && part(p, b); });
}

}  // namespace tektite
