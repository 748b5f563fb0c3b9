#pragma once

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

 private:
  std::vector<uint64_t> words_;
};

}  // namespace tektite
