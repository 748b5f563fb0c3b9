#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace tektite {

/// What languages that look like C spell differently. Kernel texts say the rest alike: i8 .. u64, f16 and bf16 (as bits) are declared
/// before them, and so are the helpers that they call.
struct Language {
  enum Kind : uint8_t { OpenCl, Cuda } kind;
  bool plain =
      false;  ///< Cuda: helpers in plain C++, so that kernels run on a CPU (see emit/c_shim.cpp)
  std::string_view extension;
  std::string_view entry;   ///< before a kernel's name
  std::string_view global;  ///< before the type of a pointer to main memory
  std::string_view shared;  ///< before a declaration of what a team shares
  std::string_view restricted;
  std::string_view tile;    ///< number of the team
  std::string_view item;    ///< number of the work-item among all, where each is a tile
  std::string_view thread;  ///< number in the team
  std::string_view barrier;
};
const Language& openClC();
const Language& cudaCpp();
const Language& plainCpp();  ///< cudaCpp whose helpers any C++ compiler understands

/// Declarations of the types, and of f64 where it is used: the first helper of every kernel.
std::string typesOf(const Language&);
/// A helper's text, and before it those that it calls itself. The names: "f32_to_f16", "floordiv_i32", "max_f32", "u8_of_f32",
/// "last_arrival", ... (c_helpers.cpp).
void addHelper(const Language&, const std::string& name, std::vector<std::string>& to);

std::string_view memoryType(DType);    ///< "f16", "u8" for bool
std::string_view registerType(DType);  ///< "float" for f16

}  // namespace tektite
