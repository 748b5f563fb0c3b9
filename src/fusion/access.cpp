#include "fusion/access.h"

#include <algorithm>

#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

std::vector<Expr> coordinates(int rank) {
  std::vector<Expr> out;
  for (int i = 0; i < rank; i++) out.push_back(var(coordinate(i)));
  return out;
}
Ranges rangesOf(const std::vector<int64_t>& extents) {
  Ranges out;
  for (size_t i = 0; i < extents.size(); i++)
    out[coordinate(static_cast<int>(i))] = {0, std::max<int64_t>(extents[i] - 1, 0)};
  return out;
}

/// Reads an operand at the result's coordinates: axes of extent 1 are broadcast.
Expr readBroadcast(const Graph& g, const Node& n, int operand) {
  const TensorType& t = g.type(n.operands[operand]);
  std::vector<Expr> index;
  for (int axis = 0; axis < t.rank(); axis++)
    index.push_back(t.extent(axis) == 1 ? Expr(0) : var(coordinate(axis)));
  return load(operandName(operand), t.dtype, std::move(index));
}

Access ofMap(const Graph& g, const Node& n, const Map& m) {
  std::unordered_map<std::string, Expr> operands;
  for (size_t i = 0; i < n.operands.size(); i++) {
    const Expr constant = scalarConstant(g.node(n.operands[i]));
    operands[operandName(static_cast<int>(i))] =
        constant ? constant : readBroadcast(g, n, static_cast<int>(i));
  }
  return {.space = n.results[0].extents(), .values = {substitute(m.body, operands)}};
}

Access ofReduce(const Graph& g, const Node& n, const Reduce& r) {
  Access out{.space = n.results[0].extents(), .combine = r.combine};
  const std::vector<int64_t> from = g.type(n.operands[0]).extents();
  std::vector<Expr> index = coordinates(static_cast<int>(from.size()));
  for (size_t i = 0; i < from.size(); i++)
    if (std::ranges::count(r.axes, static_cast<int>(i))) {
      index[i] = from[i] == 1 ? Expr(0) : var(reduceAxis(static_cast<int>(out.reduce.size())));
      out.reduce.push_back(from[i]);
    } else if (from[i] == 1) {
      index[i] = Expr(0);
    }
  for (size_t i = 0; i < n.operands.size(); i++)
    out.values.push_back(
        load(operandName(static_cast<int>(i)), g.type(n.operands[i]).dtype, index));
  return out;
}

Access ofContract(const Graph& g, const Node& n, const Contract& c) {
  Access out{.space = n.results[0].extents(), .product = true};
  const DType type = n.results[0].dtype;
  out.combine = builtinCombine("sum", type);
  std::map<char, Expr> label;
  for (size_t i = 0; i < c.output.size(); i++)
    label[c.output[i]] = out.space[i] == 1 ? Expr(0) : var(coordinate(static_cast<int>(i)));
  for (size_t o = 0; o < c.inputs.size(); o++)
    for (size_t i = 0; i < c.inputs[o].size(); i++) {
      if (label.count(c.inputs[o][i])) continue;
      const int64_t extent = g.type(n.operands[o]).extent(static_cast<int>(i));
      label[c.inputs[o][i]] =
          extent == 1 ? Expr(0) : var(reduceAxis(static_cast<int>(out.reduce.size())));
      out.reduce.push_back(extent);
    }
  Expr product;
  for (size_t o = 0; o < c.inputs.size(); o++) {
    std::vector<Expr> index;
    for (size_t i = 0; i < c.inputs[o].size(); i++)
      index.push_back(
          g.type(n.operands[o]).extent(static_cast<int>(i)) == 1 ? Expr(0) : label[c.inputs[o][i]]);
    const Expr factor =
        cast(type, load(operandName(static_cast<int>(o)), g.type(n.operands[o]).dtype, index));
    product = product ? product * factor : factor;
  }
  out.values = {product};
  return out;
}

Access ofView(const Graph& g, const Node& n, const View& v) {
  Access out{.space = n.results[0].extents(), .movesData = true};
  const TensorType& from = g.type(n.operands[0]);
  const Ranges ranges = rangesOf(out.space);
  std::unordered_map<std::string, Expr> fixed;  // axes of extent 1 have coordinate 0
  for (size_t i = 0; i < out.space.size(); i++)
    if (out.space[i] == 1) fixed[coordinate(static_cast<int>(i))] = Expr(0);
  std::vector<Expr> index;
  for (const Expr& e : v.index) index.push_back(simplify(substitute(e, fixed), ranges));
  Expr guard = v.guard ? simplify(substitute(v.guard, fixed), ranges) : Expr();
  if (v.fill) {
    const Expr inside = inRange(index, from.extents(), ranges);
    guard = guard ? logicalAnd(guard, inside) : inside;
  }
  const Expr element = scalarConstant(g.node(n.operands[0]));
  const Expr value = element ? element : load(operandName(0), from.dtype, std::move(index));
  out.values = {guard && v.fill ? select(guard, value, v.fill) : value};
  return out;
}

Access ofConcat(const Graph& g, const Node& n, const Concat& c) {
  Access out{.space = n.results[0].extents(), .movesData = true};
  int64_t end = out.space[c.axis];
  Expr value;
  for (int i = static_cast<int>(n.operands.size()) - 1; i >= 0; i--) {
    const TensorType& t = g.type(n.operands[i]);
    const int64_t begin = end - t.extent(c.axis);
    if (begin == end) continue;
    std::vector<Expr> index = coordinates(t.rank());
    for (int axis = 0; axis < t.rank(); axis++)
      if (axis == c.axis)
        index[axis] = t.extent(axis) == 1 ? Expr(0) : index[axis] - Expr(begin);
      else if (t.extent(axis) == 1)
        index[axis] = Expr(0);
    const Expr constant = scalarConstant(g.node(n.operands[i]));
    const Expr part = constant ? constant : load(operandName(i), t.dtype, std::move(index));
    value = value ? select(lt(var(coordinate(c.axis)), Expr(end)), part, value) : part;
    end = begin;
  }
  out.values = {value ? value : imm(n.results[0].dtype, 0)};
  return out;
}

}  // namespace

std::string reduceAxis(int axis) { return "r" + std::to_string(axis); }

Expr scalarConstant(const Node& n) {
  const Const* c = n.as<Const>();
  if (!c) return {};
  if (!c->data) return c->splat;
  const TensorType& t = n.results[0];
  if (t.elements() != 1) return {};
  return isFloat(t.dtype) ? imm(t.dtype, loadFloat(t.dtype, c->data->data, 0))
                          : immInteger(t.dtype, loadInteger(t.dtype, c->data->data, 0));
}

Expr inRange(const std::vector<Expr>& index, const std::vector<int64_t>& extents,
             const Ranges& ranges) {
  Expr all = boolean(true);
  for (size_t i = 0; i < index.size(); i++) {
    const Interval bounds = boundsOf(index[i], ranges);
    if (bounds.low < 0) all = logicalAnd(all, le(Expr(0), index[i]));
    if (bounds.high >= extents[i]) all = logicalAnd(all, lt(index[i], Expr(extents[i])));
  }
  return all;
}

std::optional<Access> accessOf(const Graph& g, int node) {
  const Node& n = g.nodes[node];
  using Out = std::optional<Access>;
  return std::visit(
      overloaded{[](const Input&) -> Out { return {}; }, [](const Const&) -> Out { return {}; },
                 [&](const Map& m) -> Out { return ofMap(g, n, m); },
                 [&](const Reduce& r) -> Out { return ofReduce(g, n, r); },
                 [&](const Contract& c) -> Out { return ofContract(g, n, c); },
                 [&](const View& v) -> Out { return ofView(g, n, v); },
                 [&](const Gather& v) -> Out { return ofView(g, n, v); },
                 [&](const Concat& c) -> Out { return ofConcat(g, n, c); },
                 [](const Update&) -> Out { return {}; }, [](const Branch&) -> Out { return {}; },
                 [](const Loop&) -> Out { return {}; }, [](const Scan&) -> Out { return {}; },
                 [](const Call&) -> Out { return {}; }, [](const Group&) -> Out { return {}; }},
      n.kind);
}

}  // namespace tektite
