#include "support/hash.h"

#include <fmt/format.h>

namespace tektite {

std::string Hash::hex() const { return fmt::format("{:016x}{:016x}", hi, lo); }

Hasher& Hasher::add(std::string_view bytes) {
  add(static_cast<uint64_t>(bytes.size()));
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(bytes.size(), 8);
    std::memcpy(&word, bytes.data(), n);
    add(word);
    bytes.remove_prefix(n);
  }
  return *this;
}

}  // namespace tektite
