// What clusters need of memory between kernels.
#include <algorithm>

#include "fusion/clusters.h"
#include "ir/bytes.h"

namespace tektite {
namespace {

/// A view whose elements lie, row by row, where they lay.
bool staysInPlace(const Graph& g, int node) {
  const Node& n = g.nodes[node];
  const View* v = n.as<View>();
  if (!v || v->guard || g.type(n.operands[0]).elements() != n.results[0].elements()) return false;
  const std::vector<int64_t> from = g.type(n.operands[0]).extents(), to = n.results[0].extents();
  Ranges ranges;
  Expr was(0), is(0);
  for (size_t d = 0; d < from.size(); d++) was = was * Expr(from[d]) + v->index[d];
  for (size_t d = 0; d < to.size(); d++) {
    const std::string axis = coordinate(static_cast<int>(d));
    ranges[axis] = {0, std::max<int64_t>(to[d] - 1, 0)};
    is = is * Expr(to[d]) + var(axis);
  }
  return asInteger(simplify(was - is, ranges)) == 0;
}

/// Is it a product with a constant, or what follows from one at its own points?
bool ofProduct(const Graph& g, Value v) {
  while (g.node(v).as<Map>()) {
    const Node& n = g.node(v);
    const auto from = std::ranges::find_if(n.operands, [&](const Value& o) {
      return g.type(o).shape == n.results[0].shape && !g.node(o).as<Const>();
    });
    if (from == n.operands.end()) return false;
    v = *from;
  }
  const auto isWeight = [&](Value o) {
    while (!g.node(o).operands.empty()) o = g.node(o).operands[0];  // made ready for the product
    return g.node(o).as<Const>() != nullptr;
  };
  return g.node(v).as<Contract>() && std::ranges::any_of(g.node(v).operands, isWeight);
}

/// A view that only gives axes of a product another order. Layouts, which are chosen once there are kernels (layouts.h), follow the product's
/// lanes, and its elements lie where they lay. Counted only where both have another number of axes.
bool swapsAxes(const Graph& g, int node) {
  const Node& n = g.nodes[node];
  const View* v = n.as<View>();
  if (!v || v->guard || g.type(n.operands[0]).elements() != n.results[0].elements()) return false;
  const auto isAxis = [](const Expr& e) { return e.as<Var>() || isConstant(e, 0); };
  const int from = g.type(n.operands[0]).rank(), to = n.results[0].rank();
  return std::ranges::all_of(v->index, isAxis) && from >= 3 && to != from &&
         ofProduct(g, n.operands[0]);
}

}  // namespace

const InPlace& Clusters::inPlace(int c) const {
  std::optional<InPlace>& known = list[c].inPlace;
  if (!known) known = list[c].host ? InPlace{} : inPlaceOf(list[c].nodes);
  return *known;
}

InPlace Clusters::inPlaceOf(const std::vector<int>& nodes) const {
  const auto isMap = [&](int n) {
    return g_.nodes[n].as<Map>() || staysInPlace(g_, n) || swapsAxes(g_, n);
  };
  if (!std::ranges::all_of(nodes, isMap)) return {};
  const std::vector<Value> results = neededOutside(nodes);
  if (results.size() != 1) return {};
  const TensorType& type = g_.type(results[0]);
  const int64_t elements = type.elements();
  const auto isAsLarge = [&](const TensorType& t) { return t.elements() == elements; };
  if (!std::ranges::all_of(nodes, [&](int n) { return isAsLarge(g_.nodes[n].results[0]); }))
    return {};
  InPlace out{results[0], {}};
  std::set<Value> elsewhere;  // read at other points, too
  std::vector<Value> read;
  const std::vector<int> inside = withRepeated(nodes);
  for (size_t i = inside.size(); i-- > 0;) {
    const int n = inside[i];
    const bool moved = elsewhere.count({n, 0}) || !isMap(n);
    for (const Value& v : g_.nodes[n].operands)
      if (moved || !isAsLarge(g_.type(v)))
        elsewhere.insert(v);
      else if (of[v.node] >= 0 && !std::ranges::binary_search(nodes, v.node) &&
               g_.type(v).dtype == type.dtype)
        read.push_back(v);
  }
  for (const Value& v : read)
    if (!elsewhere.count(v) && !std::ranges::count(out.from, v)) out.from.push_back(v);
  return out;
}

int64_t Clusters::leastAlive(const std::vector<int>& nodes, bool exact) const {
  std::vector<Value> passed = neededOutside(nodes);
  for (const int n : nodes)
    for (const Value& v : sources_[n])
      if (!std::ranges::binary_search(nodes, v.node)) passed.push_back(v);
  std::ranges::sort(passed);
  passed.erase(std::unique(passed.begin(), passed.end()), passed.end());
  int64_t all = 0;
  for (const Value& v : passed)
    if (const size_t at = values_.of(v); !outputs_[at] && !readers_[at].empty())
      all += bytesOf(g_.type(v));
  if (!exact) return all;
  const InPlace over = inPlaceOf(nodes);
  return over.from.empty() ? all : all - bytesOf(g_.type(over.result));
}

}  // namespace tektite
