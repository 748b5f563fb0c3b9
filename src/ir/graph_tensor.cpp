#include <cstdlib>
#include <cstring>

#include "ir/graph_eval.h"
#include "support/check.h"

namespace tektite {

int64_t Tensor::elements() const {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}

Tensor Tensor::zeros(DType dtype, std::vector<int64_t> shape) {
  Tensor t{dtype, std::move(shape), nullptr};
  const int64_t n = t.elements();
  TEKTITE_CHECK(n >= 0 && n < int64_t{1} << 40, "a tensor of {} elements", n);
  t.buffer = std::shared_ptr<void>(std::calloc(static_cast<size_t>(n) + 1, 8), std::free);
  if (!t.buffer) throw std::bad_alloc();
  return t;
}

Tensor Tensor::fromRaw(DType dtype, std::vector<int64_t> shape, const void* data) {
  Tensor t = zeros(dtype, std::move(shape));
  const int64_t n = t.elements();
  if (isFloat(dtype))
    for (int64_t i = 0; i < n; i++) t.reals()[i] = loadFloat(dtype, data, i);
  else
    for (int64_t i = 0; i < n; i++) t.integers()[i] = loadInteger(dtype, data, i);
  return t;
}

Tensor Tensor::of(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  Tensor t = zeros(dtype, std::move(shape));
  TEKTITE_CHECK(t.elements() == static_cast<int64_t>(values.size()), "{} values for {}",
                values.size(), toText(t.type()));
  for (size_t i = 0; i < values.size(); i++)
    if (isFloat(dtype))
      t.reals()[i] = values[i];
    else
      t.integers()[i] = static_cast<int64_t>(values[i]);
  return t;
}

Tensor Tensor::fromConst(const Node& n) {
  const Const& c = *n.as<Const>();
  const TensorType& type = n.results[0];
  if (!c.splat) {
    if (!c.data->data) userError("constant '{}': its data was kept aside and is not here", n.name);
    return fromRaw(type.dtype, type.extents(), c.data->data);
  }
  Tensor t = zeros(type.dtype, type.extents());
  const Imm& i = *c.splat.as<Imm>();
  if (isFloat(t.dtype))
    std::fill_n(t.reals(), t.elements(), i.real);
  else
    std::fill_n(t.integers(), t.elements(), i.integer);
  return t;
}

void Tensor::toRaw(void* data) const {
  const int64_t n = elements();
  if (isFloat(dtype))
    for (int64_t i = 0; i < n; i++) storeFloat(dtype, data, i, reals()[i]);
  else
    for (int64_t i = 0; i < n; i++) storeInteger(dtype, data, i, integers()[i]);
}

std::shared_ptr<const ConstData> Tensor::toConst() const {
  auto data = std::make_shared<ConstData>();
  data->bytes = static_cast<size_t>(elements() * bytes(dtype));
  const auto memory = std::shared_ptr<void>(std::malloc(data->bytes + 1), std::free);
  if (!memory) throw std::bad_alloc();
  toRaw(memory.get());
  data->data = memory.get();
  data->owner = memory;
  return data;
}

TensorType Tensor::type() const { return {dtype, {shape.begin(), shape.end()}}; }

double Tensor::at(int64_t flat) const {
  if (isFloat(dtype)) return reals()[flat];
  const int64_t value = integers()[flat];
  return dtype == DType::U64 ? static_cast<double>(static_cast<uint64_t>(value))
                             : static_cast<double>(value);
}

namespace {

void collect(const Graph& g, std::map<std::string, std::shared_ptr<const ConstData>>& out) {
  const std::vector<int> numbers = valueNumbers(g);
  for (size_t i = 0; i < g.nodes.size(); i++) {
    const Node& n = g.nodes[i];
    if (const Const* c = n.as<Const>(); c && c->data && c->data->data)
      out[n.name.empty() ? fmt::format("c{}", numbers[i]) : n.name] = c->data;
    for (const auto& nested : nestedGraphs(n)) collect(*nested, out);
  }
}

}  // namespace

std::map<std::string, std::shared_ptr<const ConstData>> keptAside(const Graph& g) {
  std::map<std::string, std::shared_ptr<const ConstData>> out;
  collect(g, out);
  return out;
}

Graph withData(const Graph& g,
               const std::map<std::string, std::shared_ptr<const ConstData>>& data) {
  Graph out = g;
  for (Node& n : out.nodes) {
    if (const Const* c = n.as<Const>(); c && c->data && !c->data->data) {
      const auto it = data.find(n.name);
      if (it == data.end()) continue;
      if (it->second->bytes != c->data->bytes)
        userError("constant '{}': found {} bytes, expected {}", n.name, it->second->bytes,
                  c->data->bytes);
      n.kind = Const{it->second, {}};
    }
    std::vector<std::shared_ptr<const Graph>> nested = nestedGraphs(n);
    for (auto& body : nested) body = std::make_shared<const Graph>(withData(*body, data));
    n = withNested(std::move(n), nested);
  }
  return out;
}

}  // namespace tektite
