#include <gtest/gtest.h>

#include <cstdlib>

#include "fuzz/fuzz.h"
#include "fuzz_seeds.h"

namespace tektite {
namespace {

/// TEKTITE_FUZZ=N runs N seeds, TEKTITE_SEED=S only one.
TEST(Fuzz, PassesKeepWhatGraphsCompute) {
  const Seeds seeds = fuzzSeeds(300);
  for (uint64_t s = seeds.first; s < seeds.last; ++s)
    if (const auto failure = fuzzPasses(s)) {
      ADD_FAILURE() << "seed " << failure->seed << ": " << failure->what;
      break;
    }
}

}  // namespace
}  // namespace tektite
