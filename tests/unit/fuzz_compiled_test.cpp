#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/backend.h"
#include "fuzz/fuzz.h"
#include "fuzz_seeds.h"

namespace tektite {
namespace {

/// Seeds: fuzz_seeds.h. TEKTITE_FUZZ_ALL=1 doesn't stop at the first failure.
TEST(Fuzz, CompiledGraphsComputeWhatTheyMean) {
  const Seeds seeds = fuzzSeeds(0);
  const Target target = hostTarget();
  for (uint64_t s = seeds.first; s < seeds.last; ++s)
    if (const auto failure = fuzzCompiled(s, target)) {
      ADD_FAILURE() << "seed " << failure->seed << ": " << failure->what;
      if (!std::getenv("TEKTITE_FUZZ_ALL")) break;
    }
}

/// The same on an OpenCL device, where there is one.
TEST(OpenClDevice, RandomGraphsComputeWhatTheyMean) {
  const Target target = findTarget("opencl");
  const Backend* backend = findBackend("opencl");
  const std::shared_ptr<Device> held = backend ? backend->open(target) : nullptr;
  if (!held) GTEST_SKIP() << "no OpenCL device";
  const Seeds seeds = fuzzSeeds(4);
  for (uint64_t s = seeds.first; s < seeds.last; ++s)
    if (const auto failure = fuzzCompiled(s, target)) {
      ADD_FAILURE() << "seed " << failure->seed << ": " << failure->what;
      if (!std::getenv("TEKTITE_FUZZ_ALL")) break;
    }
}

}  // namespace
}  // namespace tektite
