#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ir/combine.h"
#include "ir/expr.h"

namespace tektite {

/// Kernels are loop programs. What each piece means is in docs/kernels.md; this file says only what there is.

enum class LoopMode : uint8_t { Serial, Parallel, Vector, Unroll, Warp, Thread };
std::string_view name(LoopMode);

/// A buffer: dtype, shape and strides over dims and numbers. Spaces are rows of the target's table: main, reg, frag, l1, l2, shared ...
struct Buffer {
  std::string name;
  DType type = DType::F32;
  std::vector<Expr> shape;    // empty: rank 0
  std::vector<Expr> strides;  // in elements; empty: row-major
  std::string space = "main";
  int64_t align = 0;  // bytes; 0: the element's
  std::string alias;  // class of buffers that are the same memory; "": overlaps no other
};
struct Dim {
  std::string name;
  int64_t low, high;  // inclusive
};
struct Param {
  enum Mode : uint8_t { In, Out, InOut } mode = In;
  Buffer buffer;
};
struct Ref {
  std::string buffer;
  std::vector<Expr> index;
};

struct Stmt;
using Block = std::vector<Stmt>;

// ---- the eight kinds of statement
struct BlockStmt {
  Block body;
};
struct For {
  std::string var;
  Expr extent;
  LoopMode mode;
  Block body;
};
struct If {
  Expr condition;
  Block body;
};
struct Alloc {
  Buffer buffer;
};  // until the end of its block; starts undefined
struct Store {  // all targets at once, after all values are known
  std::vector<Ref> targets;
  std::string combine;  // "": =; else sum, product, max, min, any, all or a declared combine
  std::vector<Expr> values;
  bool stream = false;  // past the caches
};
struct CopyAxis {
  std::string var;
  Expr extent;
};
struct Copy {             // bulk: a nest of plain stores handed to an engine
  std::optional<Ref> to;  // without: a prefetch
  Ref from;
  std::vector<CopyAxis> axes;
  Expr fill;               // null: none
  std::string queue;       // "": synchronous
  std::string level = {};  // of a prefetch: comes no nearer than that; "": the nearest
};
struct Sync {
  enum Kind : uint8_t { Shared, Grid, Last, Queue } kind;
  std::string name;     // Last: the grid loop's variable; Queue: the queue
  int64_t pending = 0;  // Queue: how many operations may stay pending
};
struct IntrinArg {
  std::variant<Expr, Ref> value;
};  // a dim operand's expression, or the first element of a tile
struct Intrin {
  std::string name;
  std::vector<IntrinArg> args;
  std::string queue;
};

struct Stmt {
  std::variant<BlockStmt, For, If, Alloc, Store, Copy, Sync, Intrin> kind;
  std::string comment;  // what it comes from: printed as `# ...` before it
  template <class T>
  const T* as() const {
    return std::get_if<T>(&kind);
  }
};

/// A declared instruction: operands carry spaces; the body is its meaning.
struct IntrinDef {
  std::string name;
  std::vector<Dim> dims;
  std::vector<Param> params;
  Block body;
  std::vector<bool> isDim;
};

struct Kernel {
  std::string name;
  std::vector<Dim> dims;
  std::vector<Param> params;
  Block body;
  std::string comment;  // what it computes; printed before it
  std::vector<bool>
      isDim;  // the order of dims among the parameters as written (for canonical text); may be empty: dims first
};
/// A file of the kernel language: kernels and what they declare.
struct KernelModule {
  std::vector<Combine> combines;
  std::vector<IntrinDef> intrins;
  std::vector<Kernel> kernels;
  const Combine* combine(std::string_view name) const;  // null where there is none
  const IntrinDef* intrin(std::string_view name) const;
};

KernelModule parseKernels(std::string_view text,
                          const std::string& file);  ///< UserError `file:line:column: ...`
std::string toText(const KernelModule&);
std::string toText(const Kernel&);
std::string toText(const Block&, int indent = 0);

}  // namespace tektite
