#include "support/hash.h"

#include <fmt/format.h>

namespace tektite {

std::string Hash::hex() const { return fmt::format("{:016x}{:016x}", hi, lo); }

namespace {
constexpr size_t kBulk = 4096;  // bytes, from which several lanes are worth their joining
}

Hasher& Hasher::add(std::string_view bytes) {
  add(static_cast<uint64_t>(bytes.size()));
  if (bytes.size() >= kBulk) {  // one lane waits for its own products; four run side by side
    Hasher lanes[4];
    for (int i = 0; i < 4; ++i) lanes[i].add(i);
    for (; bytes.size() >= 32; bytes.remove_prefix(32)) {
      uint64_t words[4];
      std::memcpy(words, bytes.data(), sizeof words);
      for (int i = 0; i < 4; ++i) lanes[i].add(words[i]);
    }
    for (const Hasher& lane : lanes) add(lane.finish());
  }
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
