#include "ops/util.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "support/check.h"

namespace tektite {
namespace {

constexpr std::pair<int64_t, DType> kTypes[] = {
    {1, DType::F32},  {2, DType::U8},   {3, DType::I8},    {4, DType::U16},  {5, DType::I16},
    {6, DType::I32},  {7, DType::I64},  {9, DType::Bool},  {10, DType::F16}, {11, DType::F64},
    {12, DType::U32}, {13, DType::U64}, {16, DType::BF16}, {21, DType::U4},  {22, DType::I4}};

void flattenProduct(const Expr& e, int64_t& number, std::vector<Expr>& factors) {
  if (const auto i = asInteger(e)) {
    number *= *i;
  } else if (const Apply* a = e.as<Apply>(); a && a->op == Op::Mul) {
    for (const Expr& x : a->args) flattenProduct(x, number, factors);
  } else {
    factors.push_back(e);
  }
}

/// The constant's elements, through `load`.
template <class T, class LoadElement>
std::optional<std::vector<T>> elementsOf(const Builder& b, Value v, T splat(const Expr&),
                                         LoadElement load) {
  const Const* c = b.graph.node(v).as<Const>();
  if (!c || !b.type(v).isStatic()) return std::nullopt;
  const int64_t n = b.type(v).elements();
  std::vector<T> out;
  for (int64_t i = 0; i < n; i++)
    out.push_back(c->data ? load(b.dtype(v), c->data->data, i) : splat(c->splat));
  return out;
}

}  // namespace

std::string number(double value) { return fmt::format("{}", value); }

DType dtypeOfNumber(int64_t onnxType) {
  for (const auto& [n, type] : kTypes)
    if (n == onnxType) return type;
  userError("element type {} is not supported", onnxType);
}

int64_t numberOfDtype(DType t) {
  for (const auto& [n, type] : kTypes)
    if (type == t) return n;
  userError("{} has no number", name(t));
}

int axisOf(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) userError("axis {} is out of range for rank {}", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int> axesOf(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> out;
  for (const int64_t a : axes) out.push_back(axisOf(a, rank));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) userError("an axis is given twice");
  return out;
}

std::vector<int> axisRange(int from, int to) {
  std::vector<int> out;
  for (int i = from; i < to; i++) out.push_back(i);
  return out;
}

std::optional<std::vector<double>> numbersOf(const Builder& b, Value v) {
  if (auto known = b.knownNumbers(v)) return known;
  if (!isFloat(b.dtype(v))) {
    const auto integers = integersOf(b, v);
    if (!integers) return std::nullopt;
    return std::vector<double>(integers->begin(), integers->end());
  }
  return elementsOf<double>(b, v, [](const Expr& e) { return e.as<Imm>()->real; }, loadFloat);
}

std::optional<std::vector<int64_t>> integersOf(const Builder& b, Value v) {
  if (isFloat(b.dtype(v))) return std::nullopt;
  if (const auto known = b.known(v)) {
    std::vector<int64_t> out;
    for (const Expr& e : *known) {
      const auto i = asInteger(simplified(b, e));
      if (!i) return std::nullopt;
      out.push_back(*i);
    }
    return out;
  }
  return elementsOf<int64_t>(b, v, [](const Expr& e) { return e.as<Imm>()->integer; }, loadInteger);
}

std::optional<double> scalarOf(const Builder& b, Value v) {
  if (!b.type(v).isStatic() || b.type(v).elements() != 1) return std::nullopt;
  const auto all = numbersOf(b, v);
  return all && all->size() == 1 ? std::optional<double>(all->front()) : std::nullopt;
}

void notOne(size_t elements) { userError("an input has {} elements, expected one", elements); }

std::vector<Expr> needKnown(const Builder& b, Value v, std::string_view what) {
  if (const auto known = b.known(v)) {
    std::vector<Expr> out;
    for (const Expr& e : *known) out.push_back(simplified(b, e));
    return out;
  }
  if (const auto integers = integersOf(b, v)) return {integers->begin(), integers->end()};
  throw NeedValue{v, std::string(what), {}, {}};
}

std::vector<int64_t> needIntegers(const Builder& b, Value v, std::string_view what) {
  if (const auto integers = integersOf(b, v)) return *integers;
  throw NeedValue{v, std::string(what), {}, {}};
}

std::vector<double> needNumbers(const Builder& b, Value v, std::string_view what) {
  if (const auto numbers = numbersOf(b, v)) return *numbers;
  throw NeedValue{v, std::string(what), {}, {}};
}

double needScalar(const Builder& b, Value v, std::string_view what) {
  if (const auto value = scalarOf(b, v)) return *value;
  if (b.type(v).isStatic() && b.type(v).elements() != 1)
    userError("{} is {}, expected one element", what, toText(b.type(v)));
  throw NeedValue{v, std::string(what), {}, {}};
}

bool isData(const Builder& b, Value v) { return !b.known(v) && !numbersOf(b, v); }

bool knownNonNegative(const Builder& b, Value v) {
  const auto known = b.known(v);
  if (!known) return false;
  const Ranges ranges = b.graph.ranges();
  return std::all_of(known->begin(), known->end(),
                     [&](const Expr& e) { return boundsOf(e, ranges).low >= 0; });
}

std::optional<std::vector<int64_t>> inputOrAttribute(const Builder& b, const OpCall& c,
                                                     size_t input, std::string_view attribute) {
  if (c.has(input))
    return needIntegers(b, c.at(input), fmt::format("input {} ('{}')", input, attribute));
  if (c.given(attribute)) return c.integers(attribute);
  return std::nullopt;
}

const std::vector<Expr>& shapeOf(const Builder& b, Value v, int rank, std::string_view what) {
  if (b.rank(v) != rank) userError("{} is {}, expected rank {}", what, toText(b.type(v)), rank);
  return b.type(v).shape;
}

const std::vector<Expr>& shapeFrom(const Builder& b, Value v, int leastRank,
                                   std::string_view what) {
  if (b.rank(v) < leastRank)
    userError("{} is {}, expected at least rank {}", what, toText(b.type(v)), leastRank);
  return b.type(v).shape;
}

void needFloat(const Builder& b, Value v, std::string_view what) {
  if (!isFloat(b.dtype(v))) userError("{} is {}, expected floats", what, toText(b.type(v)));
}
void needInteger(const Builder& b, Value v, std::string_view what) {
  if (!isInteger(b.dtype(v))) userError("{} is {}, expected integers", what, toText(b.type(v)));
}
void needNumber(const Builder& b, Value v, std::string_view what) {
  if (b.dtype(v) == DType::Bool) userError("{} is {}, expected numbers", what, toText(b.type(v)));
}

void needPositive(const std::vector<int64_t>& numbers, std::string_view what) {
  for (const int64_t n : numbers)
    if (n < 1)
      userError("{} are [{}], expected numbers of at least 1", what, fmt::join(numbers, ", "));
}

Expr simplified(const Builder& b, const Expr& e) { return simplify(e, b.graph.ranges()); }

int64_t needStatic(const Expr& extent, std::string_view what) {
  if (const auto n = asInteger(extent)) return *n;
  userError("{} is {}, expected a number", what, toText(extent));
}

Expr lastExtent(const Builder& b, Value v) {
  const auto& shape = b.type(v).shape;
  if (shape.empty()) userError("an input is a scalar, expected at least rank 1");
  return shape.back();
}

Expr productOf(const std::vector<Expr>& factors) {
  Expr all = 1;
  for (const Expr& f : factors) all = all * f;
  return all;
}

std::optional<Expr> divideFactors(const std::vector<Expr>& total, const std::vector<Expr>& part) {
  int64_t number = 1, divisor = 1;
  std::vector<Expr> factors, divisors;
  for (const Expr& e : total) flattenProduct(e, number, factors);
  for (const Expr& e : part) flattenProduct(e, divisor, divisors);
  for (const Expr& d : divisors) {
    const auto at = std::find(factors.begin(), factors.end(), d);
    if (at == factors.end()) return std::nullopt;
    factors.erase(at);
  }
  if (divisor == 0 || number % divisor != 0) return std::nullopt;
  return Expr(number / divisor) * productOf(factors);
}

Value constantOf(Builder& b, DType t, const std::vector<double>& values, std::vector<Expr> shape) {
  auto memory =
      std::make_shared<std::vector<char>>(values.size() * static_cast<size_t>(bytes(t)) + 1);
  for (size_t i = 0; i < values.size(); i++) {
    if (isFloat(t))
      storeFloat(t, memory->data(), static_cast<int64_t>(i), values[i]);
    else
      storeInteger(t, memory->data(), static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  }
  auto data = std::make_shared<ConstData>();
  data->data = memory->data();
  data->bytes = memory->size() - 1;
  data->owner = memory;
  return b.constant({t, std::move(shape)}, data);
}

std::vector<Expr> coordinates(int rank) {
  std::vector<Expr> out;
  for (int i = 0; i < rank; i++) out.push_back(var(coordinate(i)));
  return out;
}

Expr indexLoad(const Builder& b, int operand, Value indices, std::vector<Expr> at) {
  return cast(DType::I64, load(operandName(operand), b.dtype(indices), std::move(at)));
}

Value squeeze(Builder& b, Value v, const std::vector<int>& axes) {
  std::vector<Expr> shape;
  for (int i = 0; i < b.rank(v); i++)
    if (std::find(axes.begin(), axes.end(), i) == axes.end())
      shape.push_back(b.type(v).shape.at(i));
  for (const int a : axes)
    if (!isConstant(b.type(v).shape.at(a), 1))
      userError("axis {} has extent {}, expected 1", a, toText(b.type(v).shape.at(a)));
  return axes.empty() ? v : b.reshape(v, shape);
}

Value unsqueeze(Builder& b, Value v, const std::vector<int>& axes) {
  std::vector<Expr> shape = b.type(v).shape;
  for (const int a : axes) shape.insert(shape.begin() + a, 1);
  return axes.empty() ? v : b.reshape(v, shape);
}

Value alongAxis(Builder& b, Value v, int axis, int rank) {
  std::vector<Expr> shape(rank, 1);
  if (b.rank(v) != 1) userError("a parameter has rank {}, expected 1", b.rank(v));
  if (axis >= rank) userError("a parameter of axis {} for a value of rank {}", axis, rank);
  shape.at(static_cast<size_t>(axis)) = b.type(v).shape.at(0);
  return b.reshape(v, shape);
}

Value meanOver(Builder& b, Value v, const std::vector<int>& axes) {
  const DType t = b.dtype(v);
  Expr n = 1;
  for (const int a : axes) n = n * b.type(v).shape.at(a);
  const Expr sum = var(operandName(0), t);
  const Op divide = isFloat(t) ? Op::Div : Op::TruncDiv;
  const auto constant = asInteger(n);
  const Expr divisor = constant ? imm(t, static_cast<double>(*constant)) : cast(t, n);
  return b.map(apply(divide, {sum, divisor}), {b.reduce("sum", v, axes)});
}

DType accumulatorOf(DType t) { return t == DType::F16 || t == DType::BF16 ? DType::F32 : t; }

Value contracted(Builder& b, std::string_view spec, Value x, Value y) {
  const DType t = b.dtype(x);
  return b.convert(b.contract(spec, x, y, accumulatorOf(t)), t);
}

Value labelOf(Builder& b, Value scores, const std::vector<int64_t>& labels) {
  const Value columns = b.map(var("d1"), {}, b.type(scores).shape);
  const Value best =
      squeeze(b, b.reduce(argCombine(true, DType::F32), {scores, columns}, {1})[1], {1});
  const Value names = constantOf(b, DType::I64, std::vector<double>(labels.begin(), labels.end()),
                                 {static_cast<int64_t>(labels.size())});
  return b.gather(names, {best}, b.type(best).shape, {load("$1", DType::I64, {var("d0")})},
                  imm(DType::I64, 0));
}

std::vector<int64_t> labelsOf(const OpCall& c, std::string_view numbers) {
  const auto listed = c.integers(numbers, std::vector<int64_t>{});
  if (!listed.empty() || !c.given("classlabels_strings")) return c.integers(numbers);
  std::vector<int64_t> places(c.texts("classlabels_strings").size());
  std::iota(places.begin(), places.end(), 0);
  return places;
}

Expr lowestOf(DType t) {
  if (isFloat(t)) return imm(t, -std::numeric_limits<double>::infinity());
  return immInteger(t, isSigned(t) ? INT64_MIN >> (64 - bits(t)) : 0);
}

Expr highestOf(DType t) {
  if (isFloat(t)) return imm(t, std::numeric_limits<double>::infinity());
  if (isSigned(t)) return immInteger(t, INT64_MAX >> (64 - bits(t)));
  return immInteger(t, static_cast<int64_t>(UINT64_MAX >> (64 - bits(t))));
}

}  // namespace tektite
