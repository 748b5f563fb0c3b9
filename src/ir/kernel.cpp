#include "ir/kernel.h"

namespace tektite {

std::string_view name(LoopMode mode) {
  constexpr std::string_view names[] = {"serial", "parallel", "vector", "unroll", "warp", "thread"};
  return names[static_cast<int>(mode)];
}

const Combine* KernelModule::combine(std::string_view name) const {
  for (const Combine& c : combines)
    if (c.name == name) return &c;
  return nullptr;
}

const IntrinDef* KernelModule::intrin(std::string_view name) const {
  for (const IntrinDef& i : intrins)
    if (i.name == name) return &i;
  return nullptr;
}

}  // namespace tektite
