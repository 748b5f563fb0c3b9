#include <algorithm>
#include <cstring>

#include "ir/bytes.h"
#include "ir/facts.h"
#include "ir/graph_eval.h"
#include "passes/coordinates.h"
#include "passes/pass.h"
#include "passes/rebuild.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr int64_t kSmallBytes =
    4 << 10;  // a result of this size may be larger than what it is made of
constexpr double kMostSteps =
    4 << 20;  // scalar steps of one run of the pass: some 50 ms of the interpreter

constexpr double kProductSteps =
    0.0625;  // of a multiplication and addition, or an operand's element

/// The kinds that compute from their operands alone.
bool isPure(const NodeKind& kind) {
  return std::visit(
      overloaded{[](const Input&) { return false; }, [](const Const&) { return false; },
                 [](const Map&) { return true; }, [](const Reduce&) { return true; },
                 [](const Contract&) { return true; }, [](const View&) { return true; },
                 [](const Gather&) { return true; }, [](const Concat&) { return true; },
                 [](const Update&) { return true; }, [](const Branch&) { return false; },
                 [](const Loop&) { return false; }, [](const Scan&) { return false; },
                 [](const Call&) { return false; }, [](const Group&) { return false; }},
      kind);
}

/// Scalar steps to compute the node: points of its iteration space times operations at each. Sums that take each element of a constant
/// once cost no more than packing it, which has to be done anyway: none.
double stepsOf(const Graph& g, const Node& n) {
  double steps = static_cast<double>(n.results[0].elements()), largest = 0;
  for (Value v : n.operands) {
    steps += static_cast<double>(g.type(v).elements());
    largest = std::max(largest, static_cast<double>(g.type(v).elements()));
  }
  if (const Map* m = n.as<Map>()) steps *= 1 + slotsOf(m->body);
  if (const Contract* c = n.as<Contract>()) {
    std::map<char, double> extents;
    for (size_t i = 0; i < c->inputs.size(); ++i)
      for (size_t a = 0; a < c->inputs[i].size(); ++a)
        extents[c->inputs[i][a]] =
            static_cast<double>(g.type(n.operands[i]).extent(static_cast<int>(a)));
    double products = 1;
    for (const auto& [label, extent] : extents) products *= extent;
    return products <= largest ? 0 : products * kProductSteps;
  }
  return steps;
}

/// The constant that a value is, perhaps seen through a view in range, which a sum reads without making it.
const Node* constantBehind(const Graph& g, const Node& user, Value v) {
  const Node* n = &g.node(v);
  if (const View* view = n->as<View>(); view && !view->fill && user.as<Contract>())
    n = &g.node(n->operands[0]);
  const Const* c = n->as<Const>();
  return c && n->results[0].isStatic() && !(c->data && !c->data->data && c->data->bytes) ? n
                                                                                         : nullptr;
}

/// May this node become data? Only where it needs no more memory than what it replaces.
bool foldable(const Graph& g, const Node& n, double budget) {
  if (!isPure(n.kind) || n.operands.empty()) return false;
  int64_t from = 0, to = 0;
  for (const TensorType& t : n.results) {
    if (!t.isStatic()) return false;
    to += bytesOf(t);
  }
  bool overDims = false;  // an expression of the node may name a dim
  const auto look = [&](const Node& node) {
    mapExprs(node, [&](const Expr& e) {
      for (const std::string& name : freeVars(e)) overDims |= g.dims.count(name) > 0;
      return e;
    });
  };
  for (Value v : n.operands) {
    const Node* constant = constantBehind(g, n, v);
    if (!constant || !g.type(v).isStatic()) return false;
    const Const* c = constant->as<Const>();
    if (c->data) from += static_cast<int64_t>(c->data->bytes);
    look(g.node(v));
  }
  look(n);
  return !overDims && to <= std::max(from, kSmallBytes) && stepsOf(g, n) <= budget;
}

/// Data whose elements are all the same is a splat.
Const asConst(const Tensor& t) {
  Const c{t.toConst(), {}};
  const auto* raw = static_cast<const char*>(c.data->data);
  const size_t size = static_cast<size_t>(bytes(t.dtype));
  for (size_t at = size; at < c.data->bytes; at += size)
    if (std::memcmp(raw, raw + at, size) != 0) return c;
  if (c.data->bytes == 0) return c;
  return {nullptr, isFloat(t.dtype) ? imm(t.dtype, loadFloat(t.dtype, raw, 0))
                                    : immInteger(t.dtype, loadInteger(t.dtype, raw, 0))};
}

std::vector<Value> folded(Graph& out, const Node& n) {
  std::vector<Tensor> operands;
  for (Value v : n.operands) {
    const Node& operand = out.node(v);
    operands.push_back(Tensor::fromConst(*constantBehind(out, n, v)));
    if (operand.as<View>()) operands.back() = evalNode(operand, {operands.back()})[0];
  }
  const std::vector<Tensor> results = evalNode(n, operands);
  std::vector<Value> values;
  for (size_t i = 0; i < results.size(); ++i) {
    Node c;
    c.kind = asConst(results[i]);
    c.results = {n.results[i]};
    c.origin = n.origin;
    values.push_back(out.add(std::move(c)));
  }
  return values;
}

/// A view of constant data that keeps every element in its place only gives the data another shape.
bool keepsPlaces(const View& v, const TensorType& from, const TensorType& to) {
  if (v.fill || !from.isStatic() || !to.isStatic() || from.elements() != to.elements())
    return false;
  const auto flat = [](const TensorType& t, const std::function<Expr(int)>& at) {
    Expr e = 0;
    for (int a = 0; a < t.rank(); ++a) e = e * Expr(t.extent(a)) + at(a);
    return e;
  };
  const Coordinates known(to, {});
  Facts facts(known.ranges);
  const Expr read = flat(from, [&](int a) { return v.index[a]; });
  const Expr place = flat(to, [](int a) { return var(coordinate(a)); });
  return facts.simplify(read) == facts.simplify(place);
}

std::optional<bool> knownCondition(const Graph& g, Value v) {
  const Const* c = g.node(v).as<Const>();
  if (!c || (c->data && !c->data->data)) return std::nullopt;
  return c->splat ? !isConstant(c->splat, 0) : loadInteger(DType::Bool, c->data->data, 0) != 0;
}

/// Computes what depends on constants only, while results are no larger than their operands (or 4 KiB) and the interpreter's time
/// allows. Larger constants stay views and bodies: kernels read them through those, packed where it pays.
Graph foldConstants(const Graph& in) {
  double budget = kMostSteps;
  return rebuild(in, [&](Graph& out, Node n) {
    n = withinNested(std::move(n), in, foldConstants);
    if (const Branch* b = n.as<Branch>())
      if (const auto condition = knownCondition(out, n.operands[0]))
        return inlined(out, *condition ? *b->then : *b->otherwise,
                       {n.operands.begin() + 1, n.operands.end()});
    const View* v = n.as<View>();
    const Const* source = v ? out.node(n.operands[0]).as<Const>() : nullptr;
    if (source && source->data && keepsPlaces(*v, out.type(n.operands[0]), n.results[0])) {
      n.name = out.node(n.operands[0]).name;
      n.kind = Const(*source);
      n.operands.clear();
      return keep(out, std::move(n));
    }
    if (!foldable(out, n, budget)) return keep(out, std::move(n));
    budget -= stepsOf(out, n);
    return folded(out, n);
  });
}

const Pass pass{"fold-constants", "compute what depends on constants only", foldConstants};

}  // namespace
}  // namespace tektite
