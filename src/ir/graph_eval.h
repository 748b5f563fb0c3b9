#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tektite {

/// The reference interpreter of graphs: what a graph means, slow and obvious next to compiled kernels.
/// Floats of every type are doubles, rounded only where a cast says so; integers are exact, in int64 (u64: the same bits).
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::shared_ptr<void>
      buffer;  ///< row-major; 8 bytes an element, starts as zeros; shared by copies

  static Tensor zeros(DType, std::vector<int64_t> shape);
  static Tensor fromRaw(DType, std::vector<int64_t> shape,
                        const void* data);        ///< from memory as ConstData and buffers have it
  static Tensor fromConst(const Node& constant);  ///< UserError where the data was kept aside
  static Tensor of(DType, std::vector<int64_t> shape, const std::vector<double>& values);
  void toRaw(void* data) const;  ///< rounds floats to the dtype
  std::shared_ptr<const ConstData> toConst() const;
  TensorType type() const;
  int64_t elements() const;
  double* reals() { return static_cast<double*>(buffer.get()); }
  const double* reals() const { return static_cast<const double*>(buffer.get()); }
  int64_t* integers() { return static_cast<int64_t*>(buffer.get()); }
  const int64_t* integers() const { return static_cast<const int64_t*>(buffer.get()); }
  double at(int64_t flat) const;  ///< an element of any dtype
};

struct EvalOptions {
  std::map<std::string, int64_t> dims;  ///< named dims that no input's shape says
  std::function<std::vector<Tensor>(const Call&, const Node&, const std::vector<Tensor>&)>
      routine;      ///< host routines; none: those of ir/routines.h
  int threads = 2;  ///< for large nodes; the result doesn't depend on it
  std::function<void(int node, const std::vector<Tensor>&)>
      observe;  ///< sees every node's results, in order (outermost graph only)
};

/// The outputs. UserError: inputs that don't fit the graph's, dims that contradict each other.
std::vector<Tensor> evaluate(const Graph&, const std::vector<Tensor>& inputs,
                             const EvalOptions& = {});
/// One node, for constant folding: its results from its operands.
std::vector<Tensor> evalNode(const Node&, const std::vector<Tensor>& operands,
                             const EvalOptions& = {});
/// Single elements (row-major positions) of one output, computing of the rest only what these need: to sample large graphs.
std::vector<double> evaluateAt(const Graph&, int output, const std::vector<int64_t>& elements,
                               const std::vector<Tensor>& inputs, const EvalOptions& = {});
/// Scalar steps of an evaluation: elements times operations. Dims at their options' value, else at the low end of their range;
/// a loop counts once.
double evalSteps(const Graph&, const EvalOptions& = {});

/// Constants whose bytes a text keeps aside (`const data "name"`) by name, and a graph with such constants given their data back.
std::map<std::string, std::shared_ptr<const ConstData>> keptAside(const Graph&);
Graph withData(const Graph&, const std::map<std::string, std::shared_ptr<const ConstData>>&);

}  // namespace tektite
