#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/combine.h"
#include "ir/expr.h"

namespace tektite {

/// Graphs of tensors: immutable nodes in topological order, SSA. docs/graph.md says what each kind means.

struct TensorType {
  DType dtype = DType::F32;
  std::vector<Expr> shape;  ///< numbers, or expressions over the graph's named dims
  int rank() const { return static_cast<int>(shape.size()); }
  bool isStatic() const;
  int64_t extent(int axis) const;  ///< of a static axis (TEKTITE_CHECK)
  int64_t elements() const;        ///< of a static shape
  std::vector<int64_t> extents() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};
std::string toText(const TensorType&);  ///< f32[1x2x5x5], f32[N x 8], f32 where rank 0

/// One result of a node.
struct Value {
  int node = -1;
  int result = 0;
  explicit operator bool() const { return node >= 0; }
  friend bool operator==(const Value&, const Value&) = default;
  friend auto operator<=>(const Value&, const Value&) = default;
};

class Graph;

/// Constant data: shared, never copied; may point into a mapped file (`owner` keeps it alive). Row-major, bytes(dtype) an element.
struct ConstData {
  const void* data = nullptr;
  size_t bytes = 0;
  std::shared_ptr<const void> owner;
  bool mapped = false;  ///< lies in a mapped file
  /// Gives the pages of mapped data back to the system, which reads them again when they are touched. Else does nothing.
  void forget() const;
  Hash hash()
      const;  ///< of the bytes; computed once (large data: of a sample of it and its address are not enough, all is read)
 private:
  mutable std::shared_ptr<Hash> hash_;
};

// ---- the kinds. Coordinates of the result are the variables d0, d1, ...; operands in bodies are $0, $1, ...
struct Input {};
struct Const {
  std::shared_ptr<const ConstData> data;  // null: a splat
  Expr splat;                             // an Imm of the dtype
};
struct Map {
  Expr body;
};  // $i: operand i's element (ranks equal, dims equal or 1); d0..: own coordinates
struct Reduce {  // operands: one a member of the tuple; axes stay with extent 1
  Combine combine;
  std::vector<int> axes;
};
struct Contract {                   // sum of products over labels: einsum. "nchwij,ocij->nohw"
  std::vector<std::string> inputs;  // a letter an axis, per operand
  std::string output;
  // The result's dtype is the accumulator's; operands are converted to it before they are multiplied.
};
struct View {  // result[d] = guard & in range ? operand0[index(d)] : fill
  std::vector<Expr>
      index;   // over d0..; gather: may load $1[...], $2[...] (i64 or i32 operands, cast to i64)
  Expr guard;  // null: none
  Expr fill;   // an Imm; null: the index is provably in range
};
struct Gather : View {
};  // a view whose index reads data; always has a fill, for indices out of range
struct Concat {
  int axis;
};
struct
    Update {  // a copy of operand 0; for every coordinate d of the values (the last operand), in row-major
  std::vector<Expr>
      index;  // order: base[index(d)] = combine(base[index(d)], values[d]); may load $1[...]; an index out of
  std::string combine;  // range is skipped. "": assign, else sum, product, max, min
};
struct Branch {
  std::shared_ptr<const Graph> then, otherwise;
};  // text: if; operand 0: bool; the others are the inputs of both
struct Loop {  // operands: trip count (i64), condition (bool), states..., captured...
  std::shared_ptr<const Graph>
      body;  // inputs: iteration, condition, states..., captured...; outputs: condition, states..., scanned...
  int states;  // results: states..., scanned... (stacked on a new axis 0)
};
struct
    Scan {  // operands: states..., scanned..., captured...; results: final states..., stacked slices...
  std::shared_ptr<const Graph>
      body;  // inputs: states..., slices..., captured...; outputs: states..., slices...
  int states,
      scanned;  // axis 0 of scanned operands and results is the time axis; `reverse`: from the end, a flag each
  std::vector<bool> reverse;  // of scanned operands, then of scanned results
};
struct Call {  // a host routine of the closed set (ir/routines.h)
  std::string routine;
  std::map<std::string, std::vector<double>> numbers;  // its parameters
  std::map<std::string, std::string> texts;
};
struct GroupPlan;                         // fusion/plan.h
struct Group {                            // one kernel: made by the fusion engine only
  std::shared_ptr<const Graph> body;      // inputs = operands, outputs = results
  std::shared_ptr<const GroupPlan> plan;  // how; null before scheduling
};
using NodeKind = std::variant<Input, Const, Map, Reduce, Contract, View, Gather, Concat, Update,
                              Branch, Loop, Scan, Call, Group>;

struct Node {
  NodeKind kind;
  std::vector<Value> operands;
  std::vector<TensorType> results;
  std::string name;  ///< of an input or a named constant; else may be empty
  std::string
      origin;  ///< the node of the input model it comes from, stable: what the ledger and reports call it
  template <class T>
  const T* as() const {
    return std::get_if<T>(&kind);
  }
};

struct DimRange {
  int64_t low = 0, high = int64_t{1} << 40;
};

class Graph {
 public:
  std::vector<Node> nodes;  ///< topological order: operands come first
  std::vector<Value> outputs;
  std::vector<std::string> outputNames;  ///< as many as outputs, or none
  std::map<std::string, DimRange>
      dims;  ///< named dims; a nested graph has those of the graph around it

  const Node& node(Value v) const { return nodes[v.node]; }
  const TensorType& type(Value v) const { return nodes[v.node].results[v.result]; }
  Value add(Node);                    ///< appends; the first result
  std::vector<Value> inputs() const;  ///< Input nodes in order
  Ranges ranges() const;              ///< of the named dims
  Hash hash() const;                  ///< structural: names of values and origins don't count
};

std::string coordinate(int axis);  ///< "d3"
std::string operandName(int i);    ///< "$3"

Graph parseGraph(std::string_view text,
                 const std::string& file);  ///< UserError `file:line:column: ...`
std::string toText(const Graph&);
/// Checks rules G1..Gn (DESIGN.md); InternalError names rule and node: a graph that comes from text or a pass must be sound.
void verify(const Graph&);
/// A copy where named dims are replaced by numbers. UserError: a name that the graph lacks, a number out of the range.
Graph bindDims(const Graph&, const std::map<std::string, int64_t>& values);
/// For each node, its number in the text: inputs first, then the others in order.
std::vector<int> valueNumbers(const Graph&);
/// For each node, the users of its results, ascending.
std::vector<std::vector<int>> usersOf(const Graph&);
/// Structural: kind, operands, result types; not name and origin. Nodes of one graph with equal hashes compute the same.
Hash hashOf(const Node&);
/// The node with every expression of its own (shapes, bodies, indices, guards; not those of nested graphs) mapped.
Node mapExprs(const Node&, const std::function<Expr(const Expr&)>&);
/// The graphs inside a node: branches, loop, scan and group bodies. And the node with them replaced, in the same order.
std::vector<std::shared_ptr<const Graph>> nestedGraphs(const Node&);
Node withNested(Node, const std::vector<std::shared_ptr<const Graph>>&);
std::string_view kindName(const NodeKind&);  ///< as in the text: "map", "if", ...

}  // namespace tektite
