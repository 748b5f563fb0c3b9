#include <gtest/gtest.h>

#include <cstdlib>

#include "fuzz/fuzz.h"
#include "fuzz_seeds.h"

namespace tektite {
namespace {

/// TEKTITE_FUZZ=N runs N seeds, TEKTITE_SEED=S only one.
TEST(Fuzz, CompiledGraphsComputeWhatTheyMean) {
  const Seeds seeds = fuzzSeeds(0);
  const Target target = hostTarget();
  for (uint64_t s = seeds.first; s < seeds.last; ++s)
    if (const auto failure = fuzzCompiled(s, target)) {
      ADD_FAILURE() << "seed " << failure->seed << ": " << failure->what;
      if (!std::getenv("TEKTITE_FUZZ_ALL")) break;
    }
}

}  // namespace
}  // namespace tektite
