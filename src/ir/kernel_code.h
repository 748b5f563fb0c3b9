#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ir/kernel.h"

namespace tektite::code {

/// A kernel with its names resolved, for the interpreter: expressions are numbered nodes, variables and buffers are slots.

union Value {
  int64_t i;
  double f;
};

struct Node {
  enum Kind : uint8_t { Imm, Var, Load, Cast, Apply } kind;
  Op op{};
  DType type{}, from{};   // from: of the (first) argument
  bool fromReal = false;  // is `from` a float?
  int args[3] = {-1, -1, -1};
  int slot = -1;  // Var: the variable; Load: the ref
  int memo = -1;  // used more than once in its statement: where its value is remembered
  Value value{};  // Imm
};

/// An index that is a sum of variables with factors, as nearly all are; else its node.
struct CodeIndex {
  int node = -1;
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  // variable slot, factor
};

struct CodeRef {
  int buffer;
  std::vector<CodeIndex> index;
  Ref source;
};

struct CodeBuffer {
  std::string name;
  DType type;
  std::vector<int> shape, strides;  // nodes; no strides: row-major
  bool main, registers, perLane;    // perLane: declared in a vector loop
  bool isParam = false;
  Param::Mode mode = Param::In;
  std::string alias;
};

struct CodeAxis {
  int slot, extent;
};

struct CodeIntrin;

struct CodeStmt {
  const Stmt* source = nullptr;
  int expr = -1;  // extent, condition or fill
  int slot = -1;  // loop variable; Alloc: the buffer
  std::vector<CodeStmt> body;
  std::vector<CodeRef> refs;  // targets; Copy: from, then to
  std::vector<int> values;    // Store
  bool builtin = false;       // a combine of one operation, `op`
  Op op{};
  std::vector<int> left, right,
      joined;  // declared combine: state variables, and the nodes of the joined state
  std::vector<CodeAxis> axes;
  const CodeIntrin* intrin = nullptr;
  std::vector<int> dims;  // intrin: nodes of its dim operands
};

struct CodeIntrin {
  const IntrinDef* source;
  std::vector<int> dims;     // variable slots
  std::vector<int> buffers;  // slots
  std::vector<CodeStmt> body;
};

struct Code {
  std::vector<Node> nodes;
  std::vector<CodeRef> loads;
  std::vector<CodeBuffer> buffers;
  std::vector<std::string> variables;
  int memos = 0;
  std::vector<int> dims, params;  // slots, in the kernel's order
  std::vector<CodeStmt> body;
  std::vector<std::unique_ptr<CodeIntrin>> intrins;
};

/// `kernel` and `module` must outlive the code.
Code compile(const KernelModule& module, const Kernel& kernel);

}  // namespace tektite::code
