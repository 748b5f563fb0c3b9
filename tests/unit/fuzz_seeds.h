#pragma once
#include <cstdint>
#include <cstdlib>

namespace tektite {

/// The seeds [first, last) of a random test: TEKTITE_FUZZ=N has N of them, TEKTITE_SEED=S is only one, both are N from S; else `standard`
/// many.
struct Seeds {
  uint64_t first = 0, last = 0;
  bool one = false;  ///< TEKTITE_SEED chose it
};
inline Seeds fuzzSeeds(uint64_t standard) {
  const char *seed = std::getenv("TEKTITE_SEED"), *many = std::getenv("TEKTITE_FUZZ");
  const uint64_t first = seed ? std::strtoull(seed, nullptr, 10) : 0;
  return {first,
          first + (many   ? std::strtoull(many, nullptr, 10)
                   : seed ? 1
                          : standard),
          seed != nullptr && many == nullptr};
}

}  // namespace tektite
