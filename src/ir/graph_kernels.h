#pragma once
#include "ir/graph_program.h"

namespace tektite {

/// The interpreter's kinds, one function each. Nodes are static here: dims are numbers already.

/// Walks coordinates in row-major order, with a position in each of several strided tensors.
class Odometer {
 public:
  Odometer(std::vector<int64_t> extents, std::vector<std::vector<int64_t>> strides, int64_t first);
  void next();
  int64_t coordinate(size_t axis) const { return at_[axis]; }
  int64_t position(size_t tensor) const { return positions_[tensor]; }

 private:
  std::vector<int64_t> extents_, at_, positions_;
  std::vector<std::vector<int64_t>> strides_;
};
std::vector<int64_t> rowMajor(const std::vector<int64_t>& extents);
/// Strides to read a tensor at coordinates of a larger shape of equal rank: 0 where it has extent 1.
std::vector<int64_t> broadcastStrides(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to);

/// The elements `flat` of a node's first result, put where they belong; other elements stay as they are.
struct Wanted {
  const std::vector<int64_t>* list = nullptr;  // null: all
  int64_t count(const Tensor& out) const {
    return list ? static_cast<int64_t>(list->size()) : out.elements();
  }
  int64_t at(int64_t i) const { return list ? (*list)[static_cast<size_t>(i)] : i; }
};

using Operands = std::vector<const Tensor*>;
void evalMap(const Map&, const Operands&, Tensor& out, Wanted, int threads);
void evalView(const View&, const Operands&, Tensor& out, Wanted, int threads);  // and gather
/// Where elements of a view (not a gather) read in its operand; nothing for those that get the fill.
void viewPositions(const View&, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                   const std::vector<int64_t>& elements, const std::function<void(int64_t)>& see);
void evalReduce(const Reduce&, const Operands&, std::vector<Tensor>& out, int threads);
void evalContract(const Contract&, const Operands&, Tensor& out, int threads);
void evalReduceAt(const Reduce&, const Operands&, std::vector<Tensor>& out,
                  const std::vector<int64_t>& elements);
void evalContractAt(const Contract&, const Operands&, Tensor& out,
                    const std::vector<int64_t>& elements);
/// What elements of a result need of an operand: calls `need` with positions in it. Nothing said (false): all of every operand.
bool needsOf(const Node&, const std::vector<std::vector<int64_t>>& operandShapes,
             const std::vector<int64_t>& elements,
             const std::function<void(size_t operand, int64_t position)>& need);
void evalConcat(const Concat&, const Operands&, Tensor& out);
void evalUpdate(const Update&, const Operands&, Tensor& out);

}  // namespace tektite
