#pragma once
#include <optional>
#include <string_view>

#include "ir/graph.h"

namespace tektite {

/// Builds graphs: kinds, and the few ready-made views every op needs. Types are inferred; what doesn't fit is a UserError
/// (the caller, ops/, puts the node's name before it). Operands of lower rank are lifted to the higher by leading axes of 1.
class Builder {
 public:
  Graph graph;
  std::string origin;  ///< given to every node added from now on

  Value input(std::string name, TensorType type);
  Value constant(TensorType type, std::shared_ptr<const ConstData> data, std::string name = "");
  Value splat(DType type, double value, std::vector<Expr> shape = {});
  Value integers(const std::vector<int64_t>& values);  ///< i64, rank 1
  const TensorType& type(Value v) const {
    if (!v) missing();
    return graph.type(v);
  }
  int rank(Value v) const { return type(v).rank(); }
  DType dtype(Value v) const { return type(v).dtype; }

  /// Elementwise: scalar text over a, b, c, d, e, f (operands 0..) and d0.. (coordinates). `result`: the text's value is converted to it,
  /// and a text that says no type of its own (only numbers and coordinates) has it.
  Value map(std::string_view text, const std::vector<Value>& operands,
            std::optional<DType> result = {});
  Value map(Expr body, const std::vector<Value>& operands);  ///< over $0.. and d0..
  Value map(Expr body, const std::vector<Value>& operands,
            std::vector<Expr> shape);  ///< with a shape of its own (no operand, or broadcast up)
  Value convert(Value v, DType to);
  Value reduce(std::string_view combine, Value v,
               std::vector<int>
                   axes);  ///< sum product max min any all; axes stay as 1; negative: from the end
  std::vector<Value> reduce(Combine combine, const std::vector<Value>& values,
                            std::vector<int> axes);
  Value contract(std::string_view spec, Value a, Value b,
                 std::optional<DType> accumulator = {});  ///< "nchwij,ocij->nohw"
  Value view(Value v, std::vector<Expr> shape, std::vector<Expr> index, Expr fill = {},
             Expr guard = {});
  Value gather(Value data, const std::vector<Value>& indices, std::vector<Expr> shape,
               std::vector<Expr> index, Expr fill = {});
  Value concat(const std::vector<Value>& parts, int axis);
  Value update(Value base, const std::vector<Value>& indices, Value values, std::vector<Expr> index,
               std::string combine);
  std::vector<Value> add(Node node);  ///< any other kind, results given

  // Views
  Value transpose(Value v, const std::vector<int>& permutation);
  Value reshape(
      Value v,
      std::vector<Expr> shape);  ///< same number of elements (proven, else UserError); factored
  Value broadcast(Value v,
                  std::vector<Expr> shape);  ///< numpy's rule, to at least this shape's rank
  Value slice(Value v, const std::vector<Expr>& starts, const std::vector<Expr>& sizes,
              const std::vector<int64_t>& steps);
  Value pad(Value v, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
            Expr fill);
  /// The windows of the last `kernel.size()` axes: [.., out..., kernel...]; element out * stride + k * dilation - before, fill outside.
  Value windows(Value v, const std::vector<int64_t>& kernel, const std::vector<int64_t>& strides,
                const std::vector<int64_t>& dilations, const std::vector<int64_t>& before,
                const std::vector<Expr>& outExtents, Expr fill);

  /// The value as a known small integer tensor (≤ 64 elements, rank ≤ 1), as expressions over dims: shape arithmetic. Nothing where it
  /// isn't. Values that maps, views, gathers, concats, reductions of such tensors make are known too: ops/ needs no care of it.
  std::optional<std::vector<Expr>> known(Value v) const;
  /// A constant of up to 64 elements of any type, as numbers; nothing where it isn't constant.
  std::optional<std::vector<double>> knownNumbers(Value v) const;
  /// A tensor with these known values (i64): a constant where they are numbers, else a map over dims.
  Value fromKnown(const std::vector<Expr>& values, bool scalar, DType type = DType::I64);

 private:
  [[noreturn]] static void missing();  // UserError: an input
  Value append(NodeKind kind, std::vector<Value> operands, TensorType type);
  Value lift(Value v, int rank);  // by leading axes of 1
  Value makeView(Value v, std::vector<Value> indices, std::vector<Expr> shape, View view);
  void learn(Value v);                        // fills known_
  std::map<Value, std::vector<Expr>> known_;  // row-major; i64, bool, or f64 for floats
};

/// The numpy-broadcast of two shapes; UserError names the axis.
std::vector<Expr> broadcastShapes(const std::vector<Expr>& a, const std::vector<Expr>& b);

}  // namespace tektite
