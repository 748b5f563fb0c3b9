#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

namespace tektite {

/// A 128-bit structural hash, the same on every run and machine: cache keys, and equality of expressions.
struct Hash {
  uint64_t hi = 0, lo = 0;
  friend bool operator==(const Hash&, const Hash&) = default;
  friend auto operator<=>(const Hash&, const Hash&) = default;
  std::string hex() const;  ///< 32 digits
};

/// Feeds values into a hash in order. Two multiply-xor-shift lanes with different constants.
class Hasher {
 public:
  Hasher& add(uint64_t word) {
    a_ = mix(a_ ^ word, 0x9e3779b97f4a7c15ull);
    b_ = mix(b_ + word * 0xc2b2ae3d27d4eb4full, 0x165667b19e3779f9ull);
    return *this;
  }
  Hasher& add(int64_t word) { return add(static_cast<uint64_t>(word)); }
  Hasher& add(int word) { return add(static_cast<uint64_t>(static_cast<int64_t>(word))); }
  Hasher& add(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return add(bits);
  }
  Hasher& add(const Hash& h) { return add(h.hi).add(h.lo); }
  Hasher& add(std::string_view bytes);
  Hash finish() const {
    return {mix(a_ ^ (b_ >> 32), 0xd6e8feb86659fd93ull),
            mix(b_ ^ (a_ >> 29), 0xa0761d6478bd642full)};
  }

 private:
  static uint64_t mix(uint64_t x, uint64_t k) {
    x ^= x >> 32;
    x *= k;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 32;
    return x;
  }
  uint64_t a_ = 0x243f6a8885a308d3ull, b_ = 0x13198a2e03707344ull;
};

}  // namespace tektite

template <>
struct std::hash<tektite::Hash> {
  size_t operator()(const tektite::Hash& h) const noexcept { return h.lo; }
};
