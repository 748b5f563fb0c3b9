#include "passes/integer_form.h"

#include <algorithm>

#include "support/check.h"

namespace tektite {
namespace {

constexpr int kMostNodes = 32;  // between a value and its integers

bool isByte(DType t) { return t == DType::U8 || t == DType::I8; }

/// A part of a map's body: a form, or an expression over operands that every element shares along some axes.
struct Part {
  std::optional<IntegerForm> form;
  Expr plain;
};

class Finder {
 public:
  Finder(Graph& g, DType want) : g_(g), want_(want) {}

  std::optional<IntegerForm> of(Value v) {
    if (++seen_ > kMostNodes) return std::nullopt;
    if (isByte(g_.type(v).dtype)) return raw(v);
    const Node n = g_.node(v);  // a copy: the graph grows
    if (const View* view = n.as<View>()) return viewed(n, *view);
    if (const Map* map = n.as<Map>()) return mapped(n, map->body);
    return std::nullopt;
  }

 private:
  IntegerForm raw(Value v) {
    const DType t = g_.type(v).dtype;
    if (t == want_) return {v, {}, {}, {}};
    const int64_t by = want_ == DType::U8 ? 128 : -128;
    const Expr shifted = cast(want_, cast(DType::I32, var("$0", t)) + immInteger(DType::I32, by));
    return {mapOf(g_, shifted, {v}), splatOf(g_, DType::I32, by, g_.type(v).rank()), {}, {}};
  }

  // ---- maps

  std::optional<IntegerForm> mapped(const Node& n, const Expr& body) {
    for (const std::string& name : freeVars(body))
      if (name[0] != '$') return std::nullopt;  // a coordinate or a dim
    node_ = n;
    const Part p = part(body);
    return p.form;
  }
  Part part(const Expr& e) {
    if (const Var* v = e.as<Var>()) {
      const size_t i = std::stoul(v->name.substr(1));
      const Node around = node_;
      std::optional<IntegerForm> form;
      if (g_.type(around.operands[i]).shape == around.results[0].shape)
        form = of(around.operands[i]);
      node_ = around;
      return {form, e};
    }
    if (const Cast* c = e.as<Cast>()) {
      Part p = part(c->arg);
      const bool keeps = e.type() == DType::I32 || e.type() == DType::F32;
      if (!keeps || (p.form && p.form->scale)) p.form.reset();
      return {p.form, e};
    }
    const Apply* a = e.as<Apply>();
    if (!a || a->args.size() != 2) return {{}, e};
    Part x = part(a->args[0]), y = part(a->args[1]);
    const bool isInteger = e.type() == DType::I32, isReal = e.type() == DType::F32;
    if (x.form && isInteger && a->op == Op::Sub) return {shifted(*x.form, a->args[1], true), e};
    if (isInteger && a->op == Op::Add) {
      if (x.form) return {shifted(*x.form, a->args[1], false), e};
      if (y.form) return {shifted(*y.form, a->args[0], false), e};
    }
    if (isReal && a->op == Op::Mul) {
      if (x.form) return {scaled(*x.form, a->args[1]), e};
      if (y.form) return {scaled(*y.form, a->args[0]), e};
    }
    return {{}, e};
  }
  /// An expression over the map's operands as a value; nothing where it is as large as the result.
  Value valueOf(const Expr& e) {
    std::unordered_map<std::string, Expr> renamed;
    std::vector<Value> operands;
    for (const std::string& name : freeVars(e)) {
      const Value v = node_.operands[std::stoul(name.substr(1))];
      renamed[name] = var(operandName(static_cast<int>(operands.size())), g_.type(v).dtype);
      operands.push_back(v);
    }
    if (operands.empty()) {
      if (!e.as<Imm>()) return {};
      Node c;
      c.kind = Const{nullptr, e};
      c.results = {{e.type(), std::vector<Expr>(node_.results[0].shape.size(), Expr(1))}};
      return g_.add(std::move(c));
    }
    return mapOf(g_, substitute(e, renamed), operands);
  }
  std::optional<IntegerForm> shifted(IntegerForm f, const Expr& by, bool minus) {
    if (f.scale) return std::nullopt;
    Value z = valueOf(by);
    if (!z) return std::nullopt;
    const Expr a = var("$0", DType::I32), b = var("$1", DType::I32);
    if (!f.zero && !minus) z = mapOf(g_, immInteger(DType::I32, 0) - a, {z});
    f.zero = f.zero ? mapOf(g_, minus ? a + b : a - b, {f.zero, z}) : z;
    if (splatValue(g_, f.zero) == 0) f.zero = {};
    return f;
  }
  std::optional<IntegerForm> scaled(IntegerForm f, const Expr& by) {
    const Value s = valueOf(by);
    if (!s) return std::nullopt;
    const Expr a = var("$0", DType::F32), b = var("$1", DType::F32);
    f.scale = f.scale ? mapOf(g_, a * b, {f.scale, s}) : s;
    return f;
  }

  // ---- views

  std::optional<IntegerForm> viewed(const Node& n, const View& view) {
    const std::optional<IntegerForm> f = of(n.operands[0]);
    if (!f) return std::nullopt;
    if (view.fill && !isZero(view.fill)) return std::nullopt;
    IntegerForm out;
    const TensorType& source = g_.type(n.operands[0]);
    Expr fill;
    if (view.fill) {
      const auto zero = f->zero ? splatValue(g_, f->zero) : std::optional<int64_t>(0);
      const bool fits = zero && *zero >= (want_ == DType::U8 ? 0 : -128) &&
                        *zero <= (want_ == DType::U8 ? 255 : 127);
      fill = immInteger(want_, fits ? *zero : 0);
      if (!fits || f->inside) out.inside = insideOf(n, view, f->inside, source);
      if ((!fits || f->inside) && !out.inside) return std::nullopt;
    }
    Node raw = n;
    raw.kind = View{view.index, view.guard, fill};
    raw.operands = {f->raw};
    raw.results[0].dtype = want_;
    out.raw = g_.add(std::move(raw));
    for (const auto& [from, to] : {std::pair{f->zero, &out.zero}, {f->scale, &out.scale}})
      if (from && !(*to = spreadBy(n, view, from, source))) return std::nullopt;
    if (f->inside && !view.fill && !(out.inside = spreadBy(n, view, f->inside, source)))
      return std::nullopt;
    return out;
  }
  static bool isZero(const Expr& e) {
    const Imm* i = e.as<Imm>();
    return i && (isFloat(e.type()) ? i->real == 0 : i->integer == 0);
  }
  /// Is this component of an index the result's own coordinate, in an axis as long as that one?
  static int straight(const Node& n, const View& view, const TensorType& source, size_t axis) {
    for (size_t d = 0; d < n.results[0].shape.size(); d++)
      if (view.index[axis] == Expr(var(coordinate(static_cast<int>(d)))) &&
          n.results[0].shape[d] == source.shape[axis])
        return static_cast<int>(d);
    return -1;
  }
  /// A parameter of the source's elements as one of the result's: axes that it doesn't depend on stay 1.
  Value spreadBy(const Node& n, const View& view, Value from, const TensorType& source) {
    const TensorType t = g_.type(from);
    std::vector<Expr> index(t.shape.size(), Expr(0));
    std::vector<Expr> shape(n.results[0].shape.size(), Expr(1));
    for (size_t axis = 0; axis < index.size(); axis++) {
      if (isConstant(t.shape[axis], 1)) continue;
      if (view.fill && straight(n, view, source, axis) < 0) return {};
      index[axis] = view.index[axis];
      for (const std::string& name : freeVars(index[axis]))
        for (size_t d = 0; d < shape.size(); d++)
          if (name == coordinate(static_cast<int>(d))) shape[d] = n.results[0].shape[d];
    }
    Node out;
    out.kind = View{index, {}, {}};
    out.operands = {from};
    out.results = {{t.dtype, shape}};
    out.origin = n.origin;
    return g_.add(std::move(out));
  }
  /// Ones with zeros where the view fills, 1 along the axes that have no say in it.
  Value insideOf(const Node& n, const View& view, Value before, const TensorType& source) {
    if (view.guard || before) return {};
    std::vector<Expr> from = source.shape, index = view.index, shape = n.results[0].shape;
    std::vector<bool> used(shape.size(), false);
    for (size_t axis = 0; axis < from.size(); axis++) {
      if (straight(n, view, source, axis) >= 0) from[axis] = 1, index[axis] = 0;
      for (const std::string& name : freeVars(index[axis]))
        for (size_t d = 0; d < shape.size(); d++)
          if (name == coordinate(static_cast<int>(d))) used[d] = true;
    }
    for (size_t d = 0; d < shape.size(); d++)
      if (!used[d]) shape[d] = 1;
    Node ones, out;
    ones.kind = Const{nullptr, immInteger(DType::U8, 1)};
    ones.results = {{DType::U8, from}};
    out.operands = {g_.add(std::move(ones))};
    out.kind = View{index, {}, immInteger(DType::U8, 0)};
    out.results = {{DType::U8, shape}};
    out.origin = n.origin;
    return g_.add(std::move(out));
  }

  Graph& g_;
  const DType want_;
  Node node_;
  int seen_ = 0;
};

}  // namespace

std::optional<int64_t> splatValue(const Graph& g, Value v) {
  const Const* c = g.node(v).as<Const>();
  return c && c->splat ? asInteger(c->splat) : std::nullopt;
}

Value splatOf(Graph& g, DType type, int64_t value, int rank) {
  Node c;
  c.kind = Const{nullptr, immInteger(type, value)};
  c.results = {{type, std::vector<Expr>(static_cast<size_t>(rank), Expr(1))}};
  return g.add(std::move(c));
}

Value mapOf(Graph& g, const Expr& body, const std::vector<Value>& operands) {
  std::unordered_map<std::string, Expr> numbers;
  std::vector<Expr> shape = g.type(operands[0]).shape;
  for (size_t i = 0; i < operands.size(); i++) {
    const Const* c = g.node(operands[i]).as<Const>();
    if (c && c->splat) numbers[operandName(static_cast<int>(i))] = c->splat;
    const TensorType& t = g.type(operands[i]);
    for (size_t d = 0; d < shape.size(); d++)
      if (isConstant(shape[d], 1)) shape[d] = t.shape[d];
  }
  Node n;
  const Expr folded = substitute(body, numbers);
  if (folded.as<Imm>()) {
    n.kind = Const{nullptr, folded};
  } else {
    n.kind = Map{body};
    n.operands = operands;
  }
  n.results = {{body.type(), shape}};
  return g.add(std::move(n));
}

std::optional<IntegerForm> integerForm(Graph& g, Value v, DType want) {
  return Finder(g, want).of(v);
}

}  // namespace tektite
