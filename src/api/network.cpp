#include <tektite/tektite.h>

#include <cstring>

#include "api/access.h"
#include "ir/bytes.h"
#include "support/check.h"

namespace tektite {
inline namespace api {

Value Access::value(const Tensor& t) {
  if (!t.network_) userError("an empty tensor found, expected one of a network");
  return {t.node_, t.result_};
}

std::shared_ptr<NetworkState> Access::network(const Tensor& t) {
  value(t);
  return t.network_;
}

Tensor Access::tensor(std::shared_ptr<NetworkState> network, Value v) {
  Tensor t;
  t.network_ = std::move(network);
  t.node_ = v.node;
  t.result_ = v.result;
  return t;
}

namespace {

std::vector<Expr> extentsOf(const Shape& shape) {
  std::vector<Expr> extents;
  for (const Dim& dim : shape)
    extents.push_back(dim.name.empty() ? Expr(dim.number) : var(dim.name));
  return extents;
}

/// Builds on the network of the operands, which is one and the same.
template <class F>
Tensor build(const std::vector<Tensor>& operands, F make) {
  if (operands.empty()) userError("no operand found, expected at least one");
  const std::shared_ptr<NetworkState> network = Access::network(operands[0]);
  std::vector<Value> values;
  for (const Tensor& operand : operands) {
    if (Access::network(operand) != network)
      userError("operands of two networks found, expected one");
    values.push_back(Access::value(operand));
  }
  Builder& builder = network->builder;
  return Access::tensor(network, make(builder, values));
}

/// Stable names for reports: what is built, and which one it is.
Tensor named(const char* what, const std::vector<Tensor>& operands,
             const std::function<Value(Builder&, const std::vector<Value>&)>& make) {
  return build(operands, [&](Builder& builder, const std::vector<Value>& values) {
    builder.origin = fmt::format("{}_{}", what, builder.graph.nodes.size());
    return make(builder, values);
  });
}

Tensor scalarText(const char* what, const char* text, const std::vector<Tensor>& operands) {
  return named(what, operands,
               [&](Builder& b, const std::vector<Value>& v) { return b.map(text, v); });
}

/// With a number as the other operand, of the same type.
Tensor withNumber(const char* what, const char* text, const Tensor& a, double number, bool first) {
  return named(what, {a}, [&](Builder& b, const std::vector<Value>& v) {
    const Value other = b.splat(b.dtype(v[0]), number);
    return b.map(text, first ? std::vector<Value>{other, v[0]} : std::vector<Value>{v[0], other});
  });
}

Tensor reduced(const char* combine, const Tensor& a, const std::vector<int>& axes) {
  return named(combine, {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.reduce(combine, v[0], axes);
  });
}

}  // namespace

Type Tensor::type() const {
  return static_cast<Type>(Access::network(*this)->builder.dtype(Access::value(*this)));
}

Shape Tensor::shape() const {
  Shape shape;
  for (const Expr& extent : Access::network(*this)->builder.type(Access::value(*this)).shape) {
    const std::optional<int64_t> number = asInteger(extent);
    shape.push_back(number ? Dim(*number) : Dim(toText(extent)));
  }
  return shape;
}

Network::Network() : state_(std::make_shared<NetworkState>()) {}

Tensor Network::input(const std::string& name, Type type, const Shape& shape) {
  for (const Dim& dim : shape) {
    if (!dim.name.empty()) state_->builder.graph.dims.try_emplace(dim.name);
  }
  return Access::tensor(state_,
                        state_->builder.input(name, {static_cast<DType>(type), extentsOf(shape)}));
}

Tensor Network::constant(Type type, const Shape& shape, const void* elements) {
  const TensorType full{static_cast<DType>(type), extentsOf(shape)};
  if (!full.isStatic()) userError("constant: a shape of {} found, expected numbers", toText(full));
  const size_t size = static_cast<size_t>(bytesOf(full));
  auto copy = std::make_shared<std::vector<uint64_t>>((size + 7) / 8);
  if (size) std::memcpy(copy->data(), elements, size);
  auto data = std::make_shared<ConstData>();
  data->data = copy->data();
  data->bytes = size;
  data->owner = copy;
  return Access::tensor(state_, state_->builder.constant(full, data));
}

Tensor Network::constant(const Shape& shape, const std::vector<float>& elements) {
  const TensorType full{DType::F32, extentsOf(shape)};
  if (!full.isStatic() || full.elements() != static_cast<int64_t>(elements.size())) {
    userError("constant: {} elements found, expected those of {}", elements.size(), toText(full));
  }
  return constant(Type::F32, shape, elements.data());
}

Tensor Network::fill(Type type, double value, const Shape& shape) {
  return Access::tensor(state_,
                        state_->builder.splat(static_cast<DType>(type), value, extentsOf(shape)));
}

void Network::output(const std::string& name, const Tensor& value) {
  if (Access::network(value) != state_)
    userError("output '{}': a tensor of another network found", name);
  state_->outputs.push_back(Access::value(value));
  state_->outputNames.push_back(name);
}

Model Network::model() const {
  Graph graph = state_->builder.graph;
  graph.outputs = state_->outputs;
  graph.outputNames = state_->outputNames;
  verify(graph);
  return Access::model(std::move(graph));
}

Tensor map(std::string_view text, const std::vector<Tensor>& operands) {
  return named("map", operands,
               [&](Builder& b, const std::vector<Value>& v) { return b.map(text, v); });
}

Tensor operator+(const Tensor& a, const Tensor& b) { return scalarText("add", "a + b", {a, b}); }
Tensor operator-(const Tensor& a, const Tensor& b) { return scalarText("sub", "a - b", {a, b}); }
Tensor operator*(const Tensor& a, const Tensor& b) { return scalarText("mul", "a * b", {a, b}); }
Tensor operator/(const Tensor& a, const Tensor& b) { return scalarText("div", "a / b", {a, b}); }
Tensor operator+(const Tensor& a, double b) { return withNumber("add", "a + b", a, b, false); }
Tensor operator-(const Tensor& a, double b) { return withNumber("sub", "a - b", a, b, false); }
Tensor operator*(const Tensor& a, double b) { return withNumber("mul", "a * b", a, b, false); }
Tensor operator/(const Tensor& a, double b) { return withNumber("div", "a / b", a, b, false); }
Tensor operator+(double a, const Tensor& b) { return withNumber("add", "a + b", b, a, true); }
Tensor operator-(double a, const Tensor& b) { return withNumber("sub", "a - b", b, a, true); }
Tensor operator*(double a, const Tensor& b) { return withNumber("mul", "a * b", b, a, true); }
Tensor operator/(double a, const Tensor& b) { return withNumber("div", "a / b", b, a, true); }
Tensor operator-(const Tensor& a) { return scalarText("neg", "-a", {a}); }
Tensor max(const Tensor& a, const Tensor& b) { return scalarText("max", "max(a, b)", {a, b}); }
Tensor min(const Tensor& a, const Tensor& b) { return scalarText("min", "min(a, b)", {a, b}); }
Tensor max(const Tensor& a, double b) { return withNumber("max", "max(a, b)", a, b, false); }
Tensor min(const Tensor& a, double b) { return withNumber("min", "min(a, b)", a, b, false); }
Tensor exp(const Tensor& a) { return scalarText("exp", "exp(a)", {a}); }
Tensor log(const Tensor& a) { return scalarText("log", "log(a)", {a}); }
Tensor sqrt(const Tensor& a) { return scalarText("sqrt", "sqrt(a)", {a}); }
Tensor tanh(const Tensor& a) { return scalarText("tanh", "tanh(a)", {a}); }
Tensor erf(const Tensor& a) { return scalarText("erf", "erf(a)", {a}); }
Tensor sigmoid(const Tensor& a) { return scalarText("sigmoid", "sigmoid(a)", {a}); }

Tensor convert(const Tensor& a, Type type) {
  return named("cast", {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.convert(v[0], static_cast<DType>(type));
  });
}

Tensor sum(const Tensor& a, const std::vector<int>& axes) { return reduced("sum", a, axes); }
Tensor amax(const Tensor& a, const std::vector<int>& axes) { return reduced("max", a, axes); }
Tensor amin(const Tensor& a, const std::vector<int>& axes) { return reduced("min", a, axes); }

Tensor mean(const Tensor& a, const std::vector<int>& axes) {
  return named("mean", {a}, [&](Builder& b, const std::vector<Value>& v) {
    Expr count = 1;
    for (int axis : axes)
      count =
          count * b.type(v[0]).shape[static_cast<size_t>(axis < 0 ? axis + b.rank(v[0]) : axis)];
    const Value total = b.reduce("sum", v[0], axes);
    return b.map(apply(Op::Div, {var("$0", b.dtype(total)), cast(b.dtype(total), count)}), {total});
  });
}

Tensor contract(std::string_view labels, const Tensor& a, const Tensor& b) {
  return named("contract", {a, b}, [&](Builder& builder, const std::vector<Value>& v) {
    return builder.contract(labels, v[0], v[1]);
  });
}

Tensor transpose(const Tensor& a, const std::vector<int>& permutation) {
  return named("transpose", {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.transpose(v[0], permutation);
  });
}
Tensor reshape(const Tensor& a, const Shape& shape) {
  return named("reshape", {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.reshape(v[0], extentsOf(shape));
  });
}
Tensor broadcast(const Tensor& a, const Shape& shape) {
  return named("broadcast", {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.broadcast(v[0], extentsOf(shape));
  });
}
Tensor slice(const Tensor& a, const std::vector<int64_t>& starts,
             const std::vector<int64_t>& sizes) {
  return named("slice", {a}, [&](Builder& b, const std::vector<Value>& v) {
    return b.slice(v[0], {starts.begin(), starts.end()}, {sizes.begin(), sizes.end()},
                   std::vector<int64_t>(starts.size(), 1));
  });
}
Tensor concat(const std::vector<Tensor>& parts, int axis) {
  return named("concat", parts,
               [&](Builder& b, const std::vector<Value>& v) { return b.concat(v, axis); });
}

}  // namespace api
}  // namespace tektite
