#include <algorithm>
#include <map>

#include "ir/mentions.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

/// Which values are the same all along an axis, seen from their nodes.
class Repeated {
 public:
  explicit Repeated(const Graph& g) : g_(g) {}
  bool along(Value v, int axis) {
    if (const auto it = known_.find({v, axis}); it != known_.end()) return it->second;
    return known_[{v, axis}] = compute(v, axis);
  }

 private:
  bool compute(Value v, int axis) {
    if (isConstant(g_.type(v).shape[static_cast<size_t>(axis)], 1)) return true;
    const Node& n = g_.node(v);
    if (const Const* c = n.as<Const>()) return !c->data;
    if (const View* view = n.as<View>()) {
      const std::string d = coordinate(axis);
      return !mentions(view->index, d) && (!view->guard || !mentions(view->guard, d));
    }
    const Map* map = n.as<Map>();
    return map && !mentions(map->body, coordinate(axis)) &&
           std::ranges::all_of(n.operands, [&](Value o) { return along(o, axis); });
  }
  const Graph& g_;
  std::map<std::pair<Value, int>, bool> known_;
};

Value addView(Graph& g, const Node& from, Value of, std::vector<Expr> index, TensorType type) {
  Node n;
  n.kind = View{std::move(index), {}, {}};
  n.operands = {of};
  n.results = {std::move(type)};
  n.origin = from.origin;
  return g.add(std::move(n));
}

/// The value at the start of the axes whose labels are gone.
Value first(Graph& g, const Node& n, Value v, const std::string& labels, const std::string& gone) {
  const TensorType whole = g.type(v);
  TensorType type{whole.dtype, {}};
  std::vector<Expr> index;
  for (size_t a = 0; a < labels.size(); a++) {
    const bool goes = gone.find(labels[a]) != std::string::npos;
    index.push_back(goes ? Expr(0) : var(coordinate(static_cast<int>(type.shape.size()))));
    if (!goes) type.shape.push_back(whole.shape[a]);
  }
  return type.shape.size() == labels.size() ? v : addView(g, n, v, std::move(index), type);
}

std::string without(const std::string& labels, const std::string& gone) {
  std::string out;
  for (const char l : labels)
    if (gone.find(l) == std::string::npos) out += l;
  return out;
}

/// Labels of the result along which every operand that has them is the same, and so is the result.
std::string repeatedLabels(Repeated& repeated, const Node& n, const Contract& c) {
  std::string out;
  for (size_t d = 0; d < c.output.size(); d++) {
    const char l = c.output[d];
    bool same = asInteger(n.results[0].shape[d]).value_or(1) > 1;
    for (size_t i = 0; i < c.inputs.size() && same; i++)
      for (size_t a = 0; a < c.inputs[i].size() && same; a++)
        same = c.inputs[i][a] != l || repeated.along(n.operands[i], static_cast<int>(a));
    if (same) out += l;
  }
  return out;
}

Graph repeatResults(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    n = withinNested(std::move(n), in, repeatResults);
    const Contract* c = n.as<Contract>();
    Repeated repeated(out);
    const std::string gone = c ? repeatedLabels(repeated, n, *c) : "";
    if (gone.empty()) return keep(out, std::move(n));
    Contract once{{}, without(c->output, gone)};
    Node product;
    for (size_t i = 0; i < c->inputs.size(); i++) {
      once.inputs.push_back(without(c->inputs[i], gone));
      product.operands.push_back(first(out, n, n.operands[i], c->inputs[i], gone));
    }
    const TensorType whole = n.results[0];
    product.results = {{whole.dtype, {}}};
    product.origin = n.origin;
    std::vector<Expr> index;
    for (size_t d = 0; d < whole.shape.size(); d++) {
      if (gone.find(c->output[d]) != std::string::npos) continue;
      index.push_back(var(coordinate(static_cast<int>(d))));
      product.results[0].shape.push_back(whole.shape[d]);
    }
    product.kind = std::move(once);
    const Value value = out.add(std::move(product));
    return std::vector<Value>{addView(out, n, value, std::move(index), whole)};
  });
}

const Pass pass{"repeat-results",
                "compute once what a product's operands repeat along a label of the result",
                repeatResults};

}  // namespace
}  // namespace tektite
