// What main memory gives between launches, against sums by hand.
#include "runtime/warm.h"

#include <gtest/gtest.h>

#include "runtime/compile.h"

namespace tektite {
namespace {

constexpr int64_t kTensor = 256 * 1024 * 4;

std::shared_ptr<const Program> program() {
  CompileOptions options;
  options.target = findTarget("gpu-class");
  options.code = false;
  options.fusion.unfused = true;
  const Graph g = parseGraph(
      "graph (x: f32[256x1024], w: f32[256x1024]) {\n"
      "  %2 = map (x) { exp($0) } : f32[256x1024]\n"
      "  %3 = reduce sum %2 axes=[1] : f32[256x1]\n"
      "  %4 = map (x, w) { $0 / $1 } : f32[256x1024]\n"
      "  %5 = map (%4, %3) { $0 + $1 } : f32[256x1024]\n"
      "  return %5\n}\n",
      "g");
  return compile(prepareGraph(g, {}, {}), options);
}

TEST(Warm, WhatStaysIsNotReadAgain) {
  const auto p = program();
  ASSERT_EQ(p->steps.size(), 4u);
  EXPECT_EQ(bytesReadWarm(*p, 64 << 20), 2 * kTensor);  // both inputs, once
}

TEST(Warm, WhatDoesNotStayIs) {
  const auto p = program();
  // x, the exponentials, x and w, the quotients; the sums of the rows are what just stays
  EXPECT_EQ(bytesReadWarm(*p, 64 << 10), 5 * kTensor + (256 << 2));
  EXPECT_EQ(bytesReadWarm(*p, 0), bytesReadWarm(*p, 64 << 10));
}

}  // namespace
}  // namespace tektite
