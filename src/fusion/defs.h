#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "fusion/access.h"
#include "fusion/ledger.h"
#include "fusion/plan.h"

namespace tektite {

/// One value of a group's body in access form, with the decision whether it gets a buffer or is inlined where it is read.
struct Def {
  enum Kind : uint8_t { Leaf, Scalar, Point, Reduced } kind = Leaf;
  Value value;       ///< in the body; of a made value: what it was made from
  std::string name;  ///< of its buffer
  DType type = DType::F32;
  std::vector<int64_t> extents;
  Expr scalar;  ///< Scalar: the constant
  std::shared_ptr<const Access> access;
  int member = 0;             ///< Reduced: which of the tuple
  int reduction = -1;         ///< Reduced: the first def of the tuple
  std::vector<int> operands;  ///< defs; -1 where unused
  const Update* scatter =
      nullptr;  ///< a copy of operand 0 into which the last operand's values go afterwards
  bool output = false, stored = false;
  int64_t elements() const;
  int64_t points() const;  ///< of its iteration space, reduce axes included
};

using AccessOf =
    std::vector<std::shared_ptr<const Access>>;  ///< for each node of the body; null: has none

/// The values of a body in topological order: operands of products made simple (a region with a fill becomes a value of its own
/// that the product reads in range), and each value either stored or inlined.
struct Defs {
  std::vector<Def> list;
  std::vector<int> ofOutput;  ///< the def of each output of the body
  int find(const std::string& name) const;
};
std::variant<Defs, Refusal> defsOf(const Graph& body, const AccessOf&);

}  // namespace tektite
