#include "runtime/dims.h"

#include "support/check.h"

namespace tektite {
namespace {

class Binder {
 public:
  explicit Binder(std::map<std::string, int64_t> given) : values_(std::move(given)) {}

  /// Extents that are a name bind it.
  void bind(const std::string& input, const TensorType& type, DType found,
            const std::vector<int64_t>& shape) {
    if (found != type.dtype || shape.size() != type.shape.size())
      mismatch(input, type, found, shape);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Var* dim = type.shape[axis].as<Var>();
      if (!dim) continue;
      const auto [at, isNew] = values_.emplace(dim->name, shape[axis]);
      if (!isNew && at->second != shape[axis]) {
        userError("input '{}': {} = {} found, expected {} as elsewhere", input, dim->name,
                  shape[axis], at->second);
      }
    }
  }

  /// All other extents follow from them.
  void check(const std::string& input, const TensorType& type, DType found,
             const std::vector<int64_t>& shape) const {
    std::unordered_map<std::string, Expr> numbers;
    for (const auto& [name, value] : values_) numbers.emplace(name, Expr(value));
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::optional<int64_t> expected =
          asInteger(simplify(substitute(type.shape[axis], numbers), {}));
      if (expected && *expected != shape[axis]) mismatch(input, type, found, shape);
    }
  }

  std::map<std::string, int64_t> take() { return std::move(values_); }

 private:
  [[noreturn]] static void mismatch(const std::string& input, const TensorType& type, DType found,
                                    const std::vector<int64_t>& shape) {
    userError("input '{}': {} found, expected {}", input, shapeText(found, shape), toText(type));
  }

  std::map<std::string, int64_t> values_;
};

}  // namespace

std::map<std::string, int64_t> dimsOf(const Graph& graph, const std::vector<DType>& types,
                                      const std::vector<std::vector<int64_t>>& shapes,
                                      const std::map<std::string, int64_t>& given) {
  const std::vector<Value> inputs = graph.inputs();
  if (inputs.size() != shapes.size())
    userError("{} inputs found, expected {}", shapes.size(), inputs.size());
  Binder binder(given);
  for (size_t i = 0; i < inputs.size(); ++i)
    binder.bind(graph.node(inputs[i]).name, graph.type(inputs[i]), types[i], shapes[i]);
  for (size_t i = 0; i < inputs.size(); ++i)
    binder.check(graph.node(inputs[i]).name, graph.type(inputs[i]), types[i], shapes[i]);
  return binder.take();
}

std::map<std::string, int64_t> dimsOf(const Graph& graph, const std::vector<Array>& inputs,
                                      const std::map<std::string, int64_t>& given) {
  std::vector<DType> types;
  std::vector<std::vector<int64_t>> shapes;
  for (const Array& input : inputs) {
    types.push_back(input.type);
    shapes.push_back(input.shape);
  }
  return dimsOf(graph, types, shapes, given);
}

}  // namespace tektite
