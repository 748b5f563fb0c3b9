#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tektite {

/// The one form in which fusion sees a fusible node: axes, index maps, a scalar body, a combine. Derived, never stored in the graph.
/// Values are over the result's coordinates d0.. and the reduce axes r0..; operand i is read by Load{"$i", index}.
struct Access {
  std::vector<int64_t> space;  ///< extents of the result's axes
  std::vector<int64_t>
      reduce;  ///< extents of the reduce axes in canonical order; empty with a combine: a reduction over nothing
  std::optional<Combine> combine;
  std::vector<Expr>
      values;  ///< without a combine: the element; with one: the members of its tuple at each point
  bool product = false;    ///< a sum of products: worth register tiles where its loads are simple
  bool movesData = false;  ///< a view, gather or concat: no arithmetic of its own
  double slots = 0;        ///< of the first value, at a point
};

/// The access form of a node of a static graph; nothing for kinds that are not one loop nest (inputs, calls, control flow, updates).
std::optional<Access> accessOf(const Graph&, int node);

std::string reduceAxis(int axis);  ///< "r2"
/// The element of a constant that is a splat or has one element, as an Imm; null otherwise.
Expr scalarConstant(const Node&);
/// 0 <= index < extent for every axis, conjoined; true where all are provable from `ranges`.
Expr inRange(const std::vector<Expr>& index, const std::vector<int64_t>& extents,
             const Ranges& ranges);

}  // namespace tektite
