#pragma once
#include <functional>

#include "ir/kernel.h"

namespace tektite {

/// A name in scope. Buffers of parameters and allocations, loop variables, dims, axes of a copy.
struct Named {
  enum Kind : uint8_t { Dim_, Loop, Axis, Buffer_ } kind;
  std::string name;
  const For* loop = nullptr;       // Loop
  const Buffer* buffer = nullptr;  // Buffer_
  const Param* param = nullptr;    // of a parameter
  int depth = 0;                   // statements around its declaration
};

/// Where a statement stands: the statements around it, outermost first, and the names in scope.
struct Path {
  std::vector<const Stmt*> around;
  std::vector<Named> names;
  const Named* find(std::string_view name) const;
  const Named* buffer(std::string_view name) const;
  /// The loops around, outermost first; `mode` only.
  std::vector<const For*> loops() const;
  bool inside(LoopMode mode) const;
  void declare(const std::vector<Dim>& dims, const std::vector<Param>& params);
  size_t declareAxes(
      const Copy& copy);  ///< answers how many names there were: names.resize(that) takes them away
};

/// Calls `enter` before a statement's body (its own variable isn't in scope yet), `leave` after it. Every statement in text order.
struct Walk {
  std::function<void(const Stmt&, Path&)> enter;
  std::function<void(const Stmt&, Path&)> leave;
};
void walk(const Block& block, Path& path, const Walk& visit);

/// Of a buffer whose shape is numbers; 0 where an extent isn't one.
int64_t bytesOf(const Buffer&);

/// Every expression of a statement itself (not of its body): extents, conditions, indices, values, shapes.
void eachExpr(const Stmt& s, const std::function<void(const Expr&)>& see);
const Block* bodyOf(const Stmt& s);  ///< of a block, loop or if; else null
const Buffer* allocOf(const Stmt& s);
std::string firstLine(const Stmt& s);

}  // namespace tektite
