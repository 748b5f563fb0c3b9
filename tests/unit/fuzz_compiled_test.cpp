#include <gtest/gtest.h>

#include <cstdlib>

#include "fuzz/fuzz.h"

namespace tektite {
namespace {

/// TEKTITE_FUZZ=N runs N seeds, TEKTITE_SEED=S only one.
TEST(Fuzz, CompiledGraphsComputeWhatTheyMean) {
  const char *seed = std::getenv("TEKTITE_SEED"), *many = std::getenv("TEKTITE_FUZZ");
  const uint64_t first = seed ? std::strtoull(seed, nullptr, 10) : 0;
  const uint64_t count = seed ? 1 : many ? std::strtoull(many, nullptr, 10) : 0;
  const Target target = hostTarget();
  for (uint64_t s = first; s < first + count; ++s)
    if (const auto failure = fuzzCompiled(s, target)) {
      ADD_FAILURE() << "seed " << failure->seed << ": " << failure->what;
      if (!std::getenv("TEKTITE_FUZZ_ALL")) break;
    }
}

}  // namespace
}  // namespace tektite
