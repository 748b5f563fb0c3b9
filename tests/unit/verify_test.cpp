#include "runtime/verify.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../evaluators.h"

namespace tektite {
namespace {

/// The zero point of values within [-t, t] as unsigned bytes: 127.5 in exact arithmetic; in float32 rounding goes either way.
Verification ofZeroPoint(float t, const char* body) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {2}});
  const Value low = b.reduce("min", x, {0}), high = b.reduce("max", x, {0});
  b.graph.outputs = {b.map(body, {low, high})};
  CompileOptions options = compileOptions(false);
  Array in(DType::F32, {2});
  static_cast<float*>(in.data())[0] = -t, static_cast<float*>(in.data())[1] = t;
  std::vector<Array> inputs;
  inputs.push_back(std::move(in));
  return verifyProgram(prepareGraph(b.graph, {}, options.passes), inputs, options, {});
}

TEST(Verify, TheLastBitMayDecideWhatIsRoundedToAnInteger) {
  int downwards = 0;
  for (int i = 0; i < 40; i++) {
    const float t = 1 - static_cast<float>(i) / 997, scale = (t + t) / 255;
    downwards += std::nearbyint(0 - -t / scale) == 127;  // in float32
    EXPECT_TRUE(ofZeroPoint(t, "round(0 - a / ((b - a) / 255))").ok) << t;
  }
  EXPECT_GT(downwards, 0);
}

}  // namespace
}  // namespace tektite
