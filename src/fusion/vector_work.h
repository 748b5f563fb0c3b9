#pragma once
#include <set>
#include <string>
#include <unordered_set>

#include "ir/expr.h"

namespace tektite {

/// Vector instructions for one element: how many, and the bytes that pass through them.
struct VectorWork {
  double slots = 0, bytes = 0;
};
/// Of stores that stand one after the other in one body: what one has computed, the others use. Addresses and masks of coordinates aren't
/// counted; an instruction is as wide as the widest value that it takes or makes.
class VectorStores {
 public:
  VectorWork of(const std::string& buffer, const Expr& value, bool combines);

 private:
  std::unordered_set<Hash> known_;
  std::set<std::string> loaded_;  ///< by these: where one is stored to, all are forgotten
};

}  // namespace tektite
