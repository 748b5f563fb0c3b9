#include "fusion/clusters.h"

#include <algorithm>

#include "fusion/fences.h"
#include "fusion/scan.h"
#include "ir/bytes.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kCheapSlots =
    4;  // repeating a map of one operand costs less than storing its result
constexpr int64_t kFewMore = 8;  // a part of a result's bytes: so many more may be read for it

bool isLeaf(const Node& n) { return n.as<Input>() || n.as<Const>(); }
bool isHost(const Node& n) {
  return n.as<Branch>() || n.as<Loop>() || n.as<Scan>() || n.as<Call>() || n.as<Group>();
}

bool isHeavy(const Node& n) { return n.as<Reduce>() || n.as<Contract>(); }

}  // namespace

Clusters::Clusters(const Graph& g, const FusionOptions& options)
    : g_(g),
      values_(g),
      readers_(values_.size()),
      outputs_(values_.size()),
      marked_(g.nodes.size()) {
  for (const Value& v : g.outputs) outputs_[values_.of(v)] = true;
  classify(options);
  const int n = static_cast<int>(g.nodes.size());
  sources_.resize(n);
  of.assign(n, -1);
  for (int i = 0; i < n; i++) {
    std::vector<Value>& mine = sources_[i];
    for (const Value& v : g.nodes[i].operands) {
      if (repeated_[v.node])
        mine.insert(mine.end(), sources_[v.node].begin(), sources_[v.node].end());
      else if (!isLeaf(g.nodes[v.node]))
        mine.push_back(v);
    }
    std::ranges::sort(mine);
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    if (isLeaf(g.nodes[i]) || repeated_[i]) continue;
    of[i] = static_cast<int>(list.size());
    const bool scan = isKernelScan(g.nodes[i]);
    list.push_back({.nodes = {i},
                    .before = {},
                    .after = {},
                    .host = isHost(g.nodes[i]) && !scan,
                    .alone = scan || g.nodes[i].as<Update>(),
                    .scan = scan,
                    .contract = g.nodes[i].as<Contract>() != nullptr,
                    .heavy = isHeavy(g.nodes[i])});
    for (const Value& v : mine) {
      readers_[values_.of(v)].push_back(i);
      list[of[i]].before.insert(of[v.node]);
      list[of[v.node]].after.insert(of[i]);
    }
  }
  rankAll();
}

void Clusters::classify(const FusionOptions& options) {
  const auto users = usersOf(g_);
  repeated_.assign(g_.nodes.size(), false);
  pinned_.assign(g_.nodes.size(), false);
  for (const Value& v : g_.outputs) pinned_[v.node] = true;
  std::set<std::string> named;  // by the user: their place is to be seen
  for (const auto* pairs : {&options.cut, &options.force, &options.modelCut, &options.modelForce})
    for (const auto& [a, b] : *pairs) named.insert({a, b});
  for (int i = 0; i < static_cast<int>(g_.nodes.size()) && !named.empty(); i++)
    if (named.count(ledgerName(g_, i))) pinned_[i] = true;
  for (const Node& n : g_.nodes)
    if (isHost(n) || n.as<Update>())
      for (const Value& v : n.operands) pinned_[v.node] = true;
  for (int i = 0; i < static_cast<int>(g_.nodes.size()); i++) {
    const Node& n = g_.nodes[i];
    if (pinned_[i]) continue;
    if (n.as<View>()) repeated_[i] = !attached(n, users);
    const Map* m = n.as<Map>();
    if (!m || (options.unfused && !users[i].empty())) continue;
    int large = 0;
    Value only;
    for (const Value& v : n.operands)
      if (!g_.node(v).as<Const>()) large++, only = v;
    if (large == 0) repeated_[i] = slotsOf(m->body) <= 4 * kCheapSlots;
    if (large != 1 || users[i].size() < 2 || slotsOf(m->body) > kCheapSlots ||
        !(g_.type(only).shape == n.results[0].shape))
      continue;
    const bool alone = users[only.node].size() == 1 && !isLeaf(g_.node(only)) &&
                       !repeated_[only.node] && !outputs_[values_.of(only)];
    repeated_[i] = !alone;
  }
}

/// A view that only drops or adds axes of extent 1, of a value that nobody else reads: its reader had better see this shape.
bool Clusters::attached(const Node& n, const std::vector<std::vector<int>>& users) const {
  const int from = n.operands[0].node;
  return isSqueeze(g_, n) && users[from].size() == 1 && !isLeaf(g_.nodes[from]) &&
         !isHost(g_.nodes[from]) && !g_.nodes[from].as<Update>() && !repeated_[from] &&
         !outputs_[values_.of(n.operands[0])];
}

bool isSqueeze(const Graph& g, const Node& n) {
  const View* v = n.as<View>();
  if (!v || v->guard) return false;
  const std::vector<int64_t> from = g.type(n.operands[0]).extents(), to = n.results[0].extents();
  std::vector<Expr> wanted;
  std::vector<int64_t> left, right;
  for (size_t d = 0; d < to.size(); d++)
    if (to[d] != 1) wanted.push_back(var(coordinate(static_cast<int>(d)))), right.push_back(to[d]);
  std::vector<Expr> found;
  for (size_t d = 0; d < from.size(); d++)
    if (from[d] != 1) found.push_back(v->index[d]), left.push_back(from[d]);
  return left == right && found == wanted;
}

void Clusters::describe(int c) {
  Cluster& mine = list[c];
  mine.alone = mine.scan = mine.contract = false;
  mine.heavy = 0;
  for (int n : mine.nodes) {
    mine.contract |= g_.nodes[n].as<Contract>() != nullptr;
    mine.heavy += isHeavy(g_.nodes[n]);
    mine.scan |= isKernelScan(g_.nodes[n]);
    mine.alone |= g_.nodes[n].as<Update>() != nullptr;
    for (const Value& v : sources_[n])
      if (const int from = of[v.node]; from != c)
        mine.before.insert(from), list[from].after.insert(c);
    for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++)
      for (int reader : readers_[values_.of({n, r})])
        if (const int to = of[reader]; to != c) mine.after.insert(to), list[to].before.insert(c);
  }
  mine.alone |= mine.scan;
  mine.changed();
}

int Clusters::split(int c, size_t count) {
  const std::vector<int>& nodes = list[c].nodes;
  return takeOut(c, std::vector(nodes.begin() + static_cast<long>(count), nodes.end()));
}
int Clusters::takeOut(int c, const std::vector<int>& nodes) {
  const int other = static_cast<int>(list.size());
  list.emplace_back();
  list[other].nodes = nodes;
  std::erase_if(list[c].nodes, [&](int n) { return std::ranges::binary_search(nodes, n); });
  for (int n : list[other].nodes) of[n] = other;
  for (int d : list[c].before) list[d].after.erase(c);
  for (int d : list[c].after) list[d].before.erase(c);
  list[c].before.clear();
  list[c].after.clear();
  describe(c);
  describe(other);
  rankNextTo(c, other);
  return other;
}

// ---- maps that their readers repeat

std::set<int> Clusters::readersOf(int node) const {
  std::set<int> out;
  for (int reader : readers_[values_.of({node, 0})])
    if (of[reader] != of[node]) out.insert(of[reader]);
  return out;
}

bool Clusters::isNeededOutside(const Value& v) const {
  return outputs_[values_.of(v)] || std::ranges::any_of(readers_[values_.of(v)], [&](int reader) {
           return of[reader] != of[v.node];
         });
}

bool Clusters::mayRepeat(int node) const {
  const Node& n = g_.nodes[node];
  const Map* m = n.as<Map>();
  if (!m || pinned_[node] || of[node] < 0 || list[of[node]].nodes.size() < 2 ||
      slotsOf(m->body) > kCheapSlots || readersOf(node).empty())
    return false;
  const int64_t mine = bytesOf(n.results[0]);
  int64_t written = 0, read = 0;  // instead
  for (Value v : n.operands) {
    while (g_.node(v).as<View>()) v = g_.node(v).operands[0];
    read += bytesOf(g_.type(v));
  }
  for (const Value& v : sources_[node])
    if (of[v.node] == of[node] && !isNeededOutside(v)) written += bytesOf(g_.type(v));
  return written < mine && read <= mine + mine / kFewMore;
}

Clusters::Repetition Clusters::repeat(int node) {
  const Value mine{node, 0};
  Repetition out{node, of[node], {}, {}};
  const std::vector<int>& own = readers_[values_.of(mine)];
  for (int reader : own) {
    out.sources.emplace_back(reader, sources_[reader]);
    std::erase(sources_[reader], mine);
  }
  for (const Value& from : sources_[node]) {
    std::vector<int>& readers = readers_[values_.of(from)];
    out.readers.push_back(readers);
    std::erase(readers, node);
    for (int reader : own) {
      std::vector<Value>& sources = sources_[reader];
      if (std::ranges::count(sources, from)) continue;
      sources.insert(std::ranges::lower_bound(sources, from), from);
      readers.push_back(reader);
    }
  }
  std::erase(list[out.cluster].nodes, node);
  repeated_[node] = true;
  of[node] = -1;
  changed(node, out.cluster);
  return out;
}

void Clusters::undo(const Repetition& r) {
  for (size_t i = 0; i < r.readers.size(); i++)
    readers_[values_.of(sources_[r.node][i])] = r.readers[i];
  for (const auto& [reader, sources] : r.sources) sources_[reader] = sources;
  std::vector<int>& nodes = list[r.cluster].nodes;
  nodes.insert(std::ranges::lower_bound(nodes, r.node), r.node);
  repeated_[r.node] = false;
  of[r.node] = r.cluster;
  changed(r.node, r.cluster);
}

void Clusters::changed(int node, int cluster) {
  std::set<int> all = readersOf(node);
  all.insert(cluster);
  for (int c : all) {
    for (int d : list[c].before) list[d].after.erase(c);
    for (int d : list[c].after) list[d].before.erase(c);
    list[c].before.clear();
    list[c].after.clear();
  }
  for (int c : all) describe(c);
}

void Clusters::joinOrigins() {
  std::map<std::string, std::vector<int>> byOrigin;
  for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
    if (of[n] >= 0 && !list[of[n]].host && !list[of[n]].alone && !g_.nodes[n].origin.empty())
      byOrigin[g_.nodes[n].origin].push_back(n);
  for (const auto& [origin, nodes] : byOrigin)
    for (size_t i = 1; i < nodes.size(); i++) {
      const int a = of[nodes[0]], b = of[nodes[i]];
      if (a != b && wayRound(a, b) < 0) merge(a, b);
    }
}

std::vector<int> Clusters::together(int a, int b) const {
  std::vector<int> nodes(list[a].nodes.size() + list[b].nodes.size());
  std::ranges::merge(list[a].nodes, list[b].nodes, nodes.begin());
  return nodes;
}

void Clusters::merge(int into, int from, double seconds) {
  rankAsOne(into, from);
  Cluster &a = list[into], &b = list[from];
  for (int n : b.nodes) of[n] = into;
  if (a.nodes.back() < b.nodes.front())
    a.nodes.insert(a.nodes.end(), b.nodes.begin(), b.nodes.end());
  else
    a.nodes = together(into, from);
  for (int c : b.before) {
    list[c].after.erase(from);
    if (c != into) a.before.insert(c), list[c].after.insert(into);
  }
  for (int c : b.after) {
    list[c].before.erase(from);
    if (c != into) a.after.insert(c), list[c].before.insert(into);
  }
  a.before.erase(from);
  a.after.erase(from);
  a.alone |= b.alone;
  a.scan |= b.scan;
  a.contract |= b.contract;
  a.heavy += b.heavy;
  a.changed();
  a.seconds = seconds;
  b = Cluster{.nodes = {},
              .before = {},
              .after = {},
              .host = false,
              .alone = false,
              .scan = false,
              .contract = false,
              .heavy = 0,
              .alive = false,
              .version = b.version + 1};
}

std::vector<Value> Clusters::neededOutside(const std::vector<int>& nodes) const {
  std::vector<Value> out;
  const int search = ++searches_;
  for (int n : nodes) marked_[n] = search;
  for (int n : nodes)
    for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++) {
      const size_t at = values_.of({n, r});
      if (outputs_[at] ||
          std::ranges::any_of(readers_[at], [&](int reader) { return marked_[reader] != search; }))
        out.push_back({n, r});
    }
  if (out.empty() && !nodes.empty()) out.push_back({nodes.back(), 0});
  return out;
}

std::vector<int> Clusters::withRepeated(const std::vector<int>& nodes) const {
  std::vector<int> out = nodes, stack;
  const auto look = [&](int n) {
    for (const Value& v : g_.nodes[n].operands)
      if (repeated_[v.node]) stack.push_back(v.node);
  };
  for (int n : nodes) look(n);
  if (!stack.empty()) {
    std::set<int> found;
    while (!stack.empty()) {
      const int n = stack.back();
      stack.pop_back();
      if (found.insert(n).second) look(n);
    }
    out.insert(out.end(), found.begin(), found.end());
    std::ranges::sort(out);
  }
  steps += static_cast<int64_t>(out.size());
  return out;
}

Clusters::Body Clusters::bodyOf(const std::vector<int>& nodes) const {
  const std::vector<int> inside = withRepeated(nodes);
  Body body;
  body.graph.nodes.reserve(inside.size() * 2);
  const int search = ++searches_;
  for (int n : inside) marked_[n] = search;
  copies_.resize(values_.size());
  const auto copyOf = [&](const Value& v) -> Copy& { return copies_[values_.of(v)]; };
  const auto add = [&](Node node, int from) {
    body.from.push_back(from);
    return body.graph.add(std::move(node));
  };
  for (int n : inside)
    for (const Value& v : g_.nodes[n].operands) {
      Copy& copy = copyOf(v);
      if (marked_[v.node] == search || copy.search == search || g_.node(v).as<Const>()) continue;
      Node input{
          .kind = Input{}, .operands = {}, .results = {g_.type(v)}, .name = {}, .origin = {}};
      copy = {search, add(std::move(input), v.node)};
      body.inputs.push_back(v);
    }
  for (int n : inside) {
    Node node = g_.nodes[n];
    for (Value& v : node.operands) {
      Copy& copy = copyOf(v);
      if (copy.search != search) copy = {search, add(g_.node(v), v.node)};  // a constant
      v = copy.value;
    }
    const Value first = add(std::move(node), n);
    for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++)
      copyOf({n, r}) = {search, {first.node, r}};
  }
  body.outputs = neededOutside(nodes);
  for (const Value& v : body.outputs) body.graph.outputs.push_back(copyOf(v).value);
  return body;
}

}  // namespace tektite
