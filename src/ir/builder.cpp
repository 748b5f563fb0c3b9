#include "ir/builder.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/bytes.h"
#include "ir/dims.h"
#include "ir/expr_text.h"
#include "support/check.h"

namespace tektite {
namespace {

int normalAxis(int axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank)
    userError("{}: axis {} of a value of rank {}", what, axis, rank);
  return axis < 0 ? axis + rank : axis;
}

std::vector<int> normalAxes(std::vector<int> axes, int rank, std::string_view what) {
  for (int& axis : axes) axis = normalAxis(axis, rank, what);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

/// Labels of `spec`, with and without blanks: "nchw, ochw -> no".
Contract labelsOf(std::string_view spec) {
  Contract c;
  std::string text;
  for (char ch : spec)
    if (ch != ' ') text += ch;
  const size_t arrow = text.find("->");
  if (arrow == std::string::npos)
    userError("contract: found '{}', expected labels like 'ij,jk->ik'", spec);
  c.output = text.substr(arrow + 2);
  text.resize(arrow);
  for (size_t from = 0;;) {
    const size_t comma = text.find(',', from);
    c.inputs.push_back(text.substr(from, comma - from));
    if (comma == std::string::npos) break;
    from = comma + 1;
  }
  return c;
}

DType accumulatorOf(DType a, DType b) {
  if (isFloat(a) || isFloat(b)) return a == DType::F64 || b == DType::F64 ? DType::F64 : DType::F32;
  return bytes(a) < 4 && bytes(b) < 4 ? DType::I32 : bytes(a) < bytes(b) ? b : a;
}

/// Loads `$1[..]` of index operands: integers, with as many indices as they have axes, everywhere within them.
void needLoads(const Builder& b, const Expr& e, const std::vector<Value>& indices,
               const std::vector<Expr>& shape) {
  for (Value v : indices)
    if (b.dtype(v) != DType::I64 && b.dtype(v) != DType::I32)
      userError("indices of {}, expected i64 or i32", name(b.dtype(v)));
  for (const Expr& x : loadsOf(e)) {
    const Load& l = *x.as<Load>();
    const size_t k = std::stoul(l.buffer.substr(1)) - 1;
    TEKTITE_CHECK(k < indices.size(), "{} is no index operand", toText(x));
    if (static_cast<int>(l.index.size()) != b.rank(indices[k]))
      userError("indices are {}, expected rank {}", toText(b.type(indices[k])), l.index.size());
    for (size_t a = 0; a < l.index.size(); a++)
      if (!inRange(l.index[a], b.type(indices[k]).shape[a], shape, b.graph.ranges()))
        userError("indices are {}, used at each place of {}", toText(b.type(indices[k])),
                  toText(TensorType{DType::I64, shape}).substr(3));
  }
}

bool isIdentity(const View& v, const std::vector<Expr>& from, const std::vector<Expr>& to) {
  if (v.guard || v.fill || from.size() != to.size()) return false;
  for (size_t i = 0; i < from.size(); i++) {
    const bool same = v.index[i] == var(coordinate(static_cast<int>(i))) || isConstant(from[i], 1);
    if (!same || !sameDim(from[i], to[i])) return false;
  }
  return true;
}

}  // namespace

std::vector<Expr> broadcastShapes(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  std::vector<Expr> out = a.size() < b.size() ? b : a;
  const std::vector<Expr>& other = a.size() < b.size() ? a : b;
  const size_t shift = out.size() - other.size();
  for (size_t i = 0; i < other.size(); i++) {
    Expr& to = out[i + shift];
    if (isConstant(other[i], 1) || sameDim(to, other[i])) continue;
    if (!isConstant(to, 1))
      userError("axis {}: {} and {} do not broadcast", i + shift,
                toText(TensorType{DType::F32, a}).substr(3),
                toText(TensorType{DType::F32, b}).substr(3));
    to = other[i];
  }
  return out;
}

void Builder::missing() { userError("an input is missing"); }

Value Builder::append(NodeKind kind, std::vector<Value> operands, TensorType type) {
  for (Expr& e : type.shape) e = normalDim(e);
  Node n{std::move(kind), std::move(operands), {std::move(type)}, "", origin};
  const Value v = graph.add(std::move(n));
  learn(v);
  return v;
}

std::vector<Value> Builder::add(Node node) {
  if (node.origin.empty()) node.origin = origin;
  const int results = static_cast<int>(node.results.size());
  const Value first = graph.add(std::move(node));
  std::vector<Value> out;
  for (int i = 0; i < results; i++) out.push_back({first.node, i});
  return out;
}

Value Builder::input(std::string name, TensorType type) {
  return graph.add(Node{Input{}, {}, {std::move(type)}, std::move(name), origin});
}

Value Builder::constant(TensorType type, std::shared_ptr<const ConstData> data, std::string name) {
  const size_t expected = static_cast<size_t>(bytesOf(type));
  if (data->bytes != expected)
    userError("constant '{}': {} bytes for {}, expected {}", name, data->bytes, toText(type),
              expected);
  const Value v = append(Const{std::move(data), {}}, {}, std::move(type));
  graph.nodes[v.node].name = std::move(name);
  return v;
}

Value Builder::splat(DType type, double value, std::vector<Expr> shape) {
  return append(Const{nullptr, imm(type, value)}, {}, {type, std::move(shape)});
}

Value Builder::integers(const std::vector<int64_t>& values) {
  return fromKnown({values.begin(), values.end()}, false);
}

// ---- kinds

Value Builder::lift(Value v, int rank) {
  const TensorType& t = type(v);
  if (t.rank() >= rank) return v;
  std::vector<Expr> shape(rank - t.rank(), Expr(1));
  shape.insert(shape.end(), t.shape.begin(), t.shape.end());
  return reshape(v, std::move(shape));
}

Value Builder::map(std::string_view text, const std::vector<Value>& operands,
                   std::optional<DType> result) {
  for (const Value v : operands)
    if (!v) missing();
  Lexer in(text, "scalar text");
  std::unordered_map<std::string, Expr> names;
  const Names scope{
      [&](std::string_view n) -> std::optional<DType> {
        if (n.size() == 1 && n[0] >= 'a' && n[0] < 'a' + static_cast<int>(operands.size())) {
          const DType t = dtype(operands[n[0] - 'a']);
          names.emplace(n, var(operandName(n[0] - 'a'), t));
          return t;
        }
        if (n.size() > 1 && n[0] == 'd' && n.find_first_not_of("0123456789", 1) == n.npos)
          return DType::I64;
        return std::nullopt;
      },
      [](std::string_view) { return std::nullopt; }};
  Expr body = parseExprOfAnyType(in, scope,
                                 result             ? *result
                                 : operands.empty() ? DType::F32
                                                    : dtype(operands[0]));
  if (in.peek().kind != Token::End) in.fail("the end");
  body = substitute(body, names);
  return map(result ? cast(*result, body) : body, operands);
}

Value Builder::map(Expr body, const std::vector<Value>& operands) {
  std::vector<Expr> shape;
  for (Value v : operands) shape = broadcastShapes(shape, type(v).shape);
  return map(std::move(body), operands, std::move(shape));
}

Value Builder::map(Expr body, const std::vector<Value>& operands, std::vector<Expr> shape) {
  std::vector<Value> lifted;
  for (Value v : operands) {
    const std::vector<Expr> both = broadcastShapes(shape, type(v).shape);
    if (both.size() != shape.size() || !sameShape(both, shape))
      userError("{} does not broadcast to {}", toText(type(v)),
                toText(TensorType{body.type(), shape}));
    lifted.push_back(lift(v, static_cast<int>(shape.size())));
  }
  const DType t = body.type();
  return append(Map{std::move(body)}, std::move(lifted), {t, std::move(shape)});
}

Value Builder::convert(Value v, DType to) {
  const DType from = dtype(v);
  return from == to ? v : map(cast(to, var("$0", from)), {v});
}

Value Builder::reduce(std::string_view combine, Value v, std::vector<int> axes) {
  if (normalAxes(axes, rank(v), "reduce").empty()) return v;
  if (!combines(combine, dtype(v)))
    userError("reduce: '{}' of {}, expected {}", combine, toText(type(v)),
              dtype(v) == DType::Bool ? "numbers" : "bools or integers");
  return reduce(builtinCombine(combine, dtype(v)), {v}, std::move(axes))[0];
}

std::vector<Value> Builder::reduce(Combine combine, const std::vector<Value>& values,
                                   std::vector<int> axes) {
  axes = normalAxes(std::move(axes), rank(values[0]), "reduce");
  Node n{Reduce{std::move(combine), axes}, values, {}, "", origin};
  for (Value v : values) {
    TensorType t = type(v);
    for (int axis : axes) t.shape[axis] = 1;
    n.results.push_back(std::move(t));
  }
  const std::vector<Value> out = add(std::move(n));
  learn(out[0]);
  return out;
}

Value Builder::contract(std::string_view spec, Value a, Value b, std::optional<DType> accumulator) {
  Contract c = labelsOf(spec);
  const std::vector<Value> operands{a, b};
  if (c.inputs.size() != 2) userError("contract: found '{}', expected two operands", spec);
  std::map<char, Expr> extents;
  for (int i = 0; i < 2; i++) {
    const TensorType& t = type(operands[i]);
    if (t.dtype == DType::Bool) userError("contract: found {}, expected numbers", toText(t));
    if (static_cast<int>(c.inputs[i].size()) != t.rank())
      userError("contract: labels '{}' for {}", c.inputs[i], toText(t));
    for (int k = 0; k < t.rank(); k++) {
      const auto [it, fresh] = extents.emplace(c.inputs[i][k], t.shape[k]);
      if (!fresh && !sameDim(it->second, t.shape[k]))
        userError("contract: axis '{}' is {} in {}, expected {}", c.inputs[i][k],
                  toText(t.shape[k]), toText(t), toText(it->second));
    }
  }
  TensorType out{accumulator ? *accumulator : accumulatorOf(dtype(a), dtype(b)), {}};
  for (char label : c.output) {
    if (!extents.count(label))
      userError("contract: axis '{}' of the result is in no operand", label);
    out.shape.push_back(extents[label]);
  }
  return append(std::move(c), operands, std::move(out));
}

Value Builder::makeView(Value v, std::vector<Value> indices, std::vector<Expr> shape, View view) {
  const TensorType& from = type(v);
  for (Expr& e : shape) e = normalDim(e);
  if (static_cast<int>(view.index.size()) != from.rank())
    userError("view: {} indices for {}", view.index.size(), toText(from));
  if (view.guard && isConstant(view.guard, 1)) view.guard = {};
  if (!indices.empty() || view.guard) {
    if (!view.fill) view.fill = imm(from.dtype, 0);
  } else {
    const Ranges dims = graph.ranges();
    bool inside = true;
    for (int i = 0; inside && i < from.rank(); i++)
      inside = inRange(view.index[i], from.shape[i], shape, dims);
    if (inside)
      view.fill = {};
    else if (!view.fill)
      view.fill = imm(from.dtype, 0);  // not provable: checked when it runs
  }
  if (indices.empty() && isIdentity(view, from.shape, shape)) return v;
  TensorType t{from.dtype, std::move(shape)};
  std::vector<Value> operands{v};
  operands.insert(operands.end(), indices.begin(), indices.end());
  if (indices.empty()) return append(std::move(view), std::move(operands), std::move(t));
  return append(Gather{std::move(view)}, std::move(operands), std::move(t));
}

Value Builder::view(Value v, std::vector<Expr> shape, std::vector<Expr> index, Expr fill,
                    Expr guard) {
  return makeView(v, {}, std::move(shape),
                  View{std::move(index), std::move(guard), std::move(fill)});
}

Value Builder::gather(Value data, const std::vector<Value>& indices, std::vector<Expr> shape,
                      std::vector<Expr> index, Expr fill) {
  for (Expr& e : shape) e = normalDim(e);
  for (const Expr& e : index) needLoads(*this, e, indices, shape);
  return makeView(data, indices, std::move(shape), View{std::move(index), {}, std::move(fill)});
}

Value Builder::concat(const std::vector<Value>& parts, int axis) {
  if (parts.empty()) userError("concat of nothing");
  TensorType t = type(parts[0]);
  axis = normalAxis(axis, t.rank(), "concat");
  Expr sum = 0;
  for (Value v : parts) {
    const TensorType& part = type(v);
    bool fits = part.rank() == t.rank() && part.dtype == t.dtype;
    for (int i = 0; fits && i < t.rank(); i++)
      fits = i == axis || sameDim(part.shape[i], t.shape[i]);
    if (!fits)
      userError("concat on axis {}: found {}, expected to fit {}", axis, toText(part), toText(t));
    sum = sum + part.shape[axis];
  }
  if (parts.size() == 1) return parts[0];
  t.shape[axis] = sum;
  return append(Concat{axis}, parts, std::move(t));
}

Value Builder::update(Value base, const std::vector<Value>& indices, Value values,
                      std::vector<Expr> index, std::string combine) {
  if (dtype(base) != dtype(values))
    userError("update of {} by {}", toText(type(base)), toText(type(values)));
  if (static_cast<int>(index.size()) != rank(base))
    userError("update: {} indices for {}", index.size(), toText(type(base)));
  if (!combine.empty() && !combines(combine, dtype(base)))
    userError("update by '{}' of {}", combine, toText(type(base)));
  for (const Expr& e : index) needLoads(*this, e, indices, type(values).shape);
  std::vector<Value> operands{base};
  operands.insert(operands.end(), indices.begin(), indices.end());
  operands.push_back(values);
  return append(Update{std::move(index), std::move(combine)}, std::move(operands), type(base));
}

}  // namespace tektite
