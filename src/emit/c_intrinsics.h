#pragma once
#include <string_view>
#include <vector>

#include "emit/c_language.h"

namespace tektite {

/// An instruction of the languages: one inline function, whose body is PTX on a GPU and plain C++ elsewhere.
struct CIntrinsic {
  std::string_view name;  ///< in kernels: "mma.m16n8k16"
  /// Of each operand: what a thread holds of a `frag` tile, as C (count 0: an address in shared memory and its row's stride, or a
  /// register's address).
  struct Operand {
    std::string_view type;
    int count;
  };
  std::vector<Operand> operands;
  std::string_view helper;  ///< the function's name, of c_helpers.cpp
};
/// Null where the language has none of that name.
const CIntrinsic* findIntrinsic(const Language&, std::string_view name);

}  // namespace tektite
