#include "passes/integer_form.h"

#include <algorithm>
#include <cstring>

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
    if (const Value bytes = asBytes(v)) return raw(bytes);
    const Node n = g_.node(v);  // a copy: the graph grows
    if (const View* view = n.as<View>()) return viewed(n, *view);
    if (const Map* map = n.as<Map>()) return mapped(n, map->body);
    return std::nullopt;
  }

 private:
  IntegerForm raw(Value v) {
    if (g_.type(v).dtype == want_) return {v, {}, {}};
    const int64_t by = want_ == DType::U8 ? 128 : -128;
    return {shiftedBytes(v, by), splatOf(g_, DType::I32, by, g_.type(v).rank()), {}};
  }
  /// A constant of wider integers that are bytes all, as these: what folding widened. Nothing where it is none.
  Value asBytes(Value v) {
    const Node& n = g_.node(v);
    const Const* c = n.as<Const>();
    if (!c || !c->data || !c->data->data || n.results[0].dtype != DType::I32) return {};
    std::vector<int32_t> wide(c->data->bytes / sizeof(int32_t));
    std::memcpy(wide.data(), c->data->data, wide.size() * sizeof(int32_t));
    if (wide.empty()) return {};
    const auto [low, high] = std::ranges::minmax(wide);
    if (low < -128 || high > (low < 0 ? 127 : 255)) return {};
    auto narrow = std::make_shared<std::vector<uint8_t>>(wide.begin(), wide.end());
    auto data = std::make_shared<ConstData>();
    data->data = narrow->data();
    data->bytes = narrow->size();
    data->owner = std::move(narrow);
    Node out = n;
    out.kind = Const{std::move(data), {}};
    out.results[0].dtype = low < 0 ? DType::I8 : high > 127 ? DType::U8 : want_;
    return g_.add(std::move(out));
  }
  /// The same bytes with the highest bit turned; of a constant at once.
  Value shiftedBytes(Value v, int64_t by) {
    Node n = g_.node(v);
    if (const View* view = n.as<View>();
        view && !view->fill && g_.node(n.operands[0]).as<Const>()) {
      n.operands[0] = shiftedBytes(n.operands[0], by);
      n.results[0].dtype = want_;
      return g_.add(std::move(n));
    }
    const Const* c = n.as<Const>();
    if (c && c->data && c->data->data) {
      auto turned = std::make_shared<std::vector<uint8_t>>(c->data->bytes);
      const auto* from = static_cast<const uint8_t*>(c->data->data);
      std::transform(from, from + c->data->bytes, turned->begin(),
                     [](uint8_t x) { return static_cast<uint8_t>(x ^ 128); });
      auto data = std::make_shared<ConstData>();
      data->data = turned->data();
      data->bytes = turned->size();
      data->owner = std::move(turned);
      n.kind = Const{std::move(data), {}};
      n.results[0].dtype = want_;
      return g_.add(std::move(n));
    }
    const Expr wide = cast(DType::I32, var("$0", g_.type(v).dtype));
    return mapOf(g_, cast(want_, wide + immInteger(DType::I32, by)), {v});
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
    const TensorType source = g_.type(n.operands[0]);
    Node raw = n;
    raw.kind = View{view.index, view.guard, view.fill ? immInteger(want_, 0) : Expr()};
    raw.operands = {f->raw};
    raw.results[0].dtype = want_;
    for (const auto& [from, to] : {std::pair{f->zero, &out.zero}, {f->scale, &out.scale}})
      if (from && !(*to = spreadBy(n, view, from, source))) return std::nullopt;
    if (view.fill && f->zero) {
      const Interval z = boundsOfValue(f->zero), all = rangeOf(want_);
      if (z.low < all.low || z.high > all.high) return std::nullopt;
      if (z.low == z.high)
        raw.kind = View{view.index, view.guard, immInteger(want_, z.low)};
      else if (!padded(raw, view, f->zero, source))
        return std::nullopt;
    }
    out.raw = g_.add(std::move(raw));
    return out;
  }
  static Interval rangeOf(DType t) {
    return t == DType::U8   ? Interval{0, 255}
           : t == DType::I8 ? Interval{-128, 127}
                            : Interval{INT32_MIN, INT32_MAX};
  }
  Interval boundsOfValue(Value v) const {
    const Node& n = g_.node(v);
    if (const auto known = splatValue(g_, v)) return {*known, *known};
    if (isByte(g_.type(v).dtype)) return rangeOf(g_.type(v).dtype);
    if (n.as<View>() && !n.as<View>()->fill) return boundsOfValue(n.operands[0]);
    const Map* map = n.as<Map>();
    if (!map) return rangeOf(DType::I32);
    Ranges ranges;
    for (size_t i = 0; i < n.operands.size(); i++)
      if (!isFloat(g_.type(n.operands[i]).dtype))
        ranges[operandName(static_cast<int>(i))] = boundsOfValue(n.operands[i]);
    return boundsOf(map->body, ranges);
  }
  /// Zero points that only a run tells: a copy of all that the view reads, with them around the data, and a view of that in range.
  bool padded(Node& raw, const View& view, Value zero, const TensorType& source) {
    if (view.guard || !source.isStatic() || !raw.results[0].isStatic()) return false;
    Ranges ranges;
    for (int d = 0; d < raw.results[0].rank(); d++)
      ranges[coordinate(d)] = {0, std::max<int64_t>(raw.results[0].extent(d) - 1, 0)};
    std::vector<Expr> shape, from, index;
    Expr inside = boolean(true);
    for (int a = 0; a < source.rank(); a++) {
      const Interval read = boundsOf(view.index[a], ranges);
      const Expr at = var(coordinate(a)) + Expr(read.low);
      shape.emplace_back(read.high - read.low + 1);
      from.push_back(at);
      index.push_back(simplify(view.index[a] - Expr(read.low), ranges));
      if (read.low < 0) inside = logicalAnd(inside, le(Expr(0), at));
      if (read.high >= source.extent(a)) inside = logicalAnd(inside, lt(at, source.extent(a)));
    }
    if (product(shape) > 4 * std::max<int64_t>(source.elements(), 1)) return false;
    Node box, filled;
    box.kind = View{from, {}, immInteger(want_, 0)};
    box.operands = raw.operands;
    box.results = {{want_, shape}};
    filled.kind = Map{select(inside, var("$0", want_), cast(want_, var("$1", DType::I32)))};
    filled.operands = {g_.add(std::move(box)), zero};
    filled.results = {{want_, shape}};
    filled.origin = raw.origin;
    raw.kind = View{index, {}, {}};
    raw.operands = {g_.add(std::move(filled))};
    return true;
  }
  static int64_t product(const std::vector<Expr>& shape) {
    int64_t n = 1;
    for (const Expr& e : shape) n *= *asInteger(e);
    return n;
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
