#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tektite {

/// A set of stages, a bit each: sets are joined by words.
class StageBits {
 public:
  explicit StageBits(size_t n = 0) : words_((n + 63) / 64) {}
  bool operator[](size_t i) const { return words_[i / 64] >> i % 64 & 1; }
  void add(size_t i) { words_[i / 64] |= uint64_t{1} << i % 64; }
  void remove(size_t i) { words_[i / 64] &= ~(uint64_t{1} << i % 64); }
  void add(const StageBits& o) {
    for (size_t w = 0; w < words_.size(); w++) words_[w] |= o.words_[w];
  }
  void clear() { words_.assign(words_.size(), 0); }
  /// Does one of them hold? In ascending order, up to the first that does; `holds` may change the set if it answers true.
  template <class Holds>
  bool any(const Holds& holds) const {
    for (size_t i = next(0); i != kNone; i = next(i + 1))
      if (holds(i)) return true;
    return false;
  }
  template <class See>
  void each(const See& see) const {
    any([&](size_t i) { return see(i), false; });
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  /// The first one from `i` on, or kNone.
  size_t next(size_t i) const {
    for (size_t w = i / 64; w < words_.size(); i = ++w * 64)
      if (const uint64_t rest = words_[w] >> i % 64)
        return i + static_cast<size_t>(std::countr_zero(rest));
    return kNone;
  }

  std::vector<uint64_t> words_;
};

}  // namespace tektite
