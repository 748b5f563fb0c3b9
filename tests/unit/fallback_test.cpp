// What can't be a kernel: refused, or interpreted and said.
#include <gtest/gtest.h>

#include "../evaluators.h"
#include "runtime/report.h"
#include "support/check.h"

namespace tektite {
namespace {

/// x doubled five times.
constexpr const char* kLoop = R"(graph (x: f32[3]) {
  %1 = const 5 : i64
  %2 = const 1 : bool
  %3 = loop %1, %2 [x] [] body (i: i64, on: bool, s: f32[3]) {
    %3 = map (s) { $0 + $0 } : f32[3]
    return on, %3
  } : f32[3]
  %4 = map (%3) { $0 + 1 } : f32[3]
  return %4
}
)";

Graph loop() { return prepareGraph(parseGraph(kLoop, "loop"), {}, {}); }

TEST(Fallback, IsRefusedByDefault) {
  CompileOptions options = compileOptions(false);
  options.fallback = nullptr;
  options.file = "loop.tk";
  try {
    compile(loop(), options);
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(),
                 "loop.tk: node '%3': found a loop that the graph interpreter executes, 3 scalar "
                 "steps each time round (only if it is allowed to fall back), expected what can be "
                 "a kernel");
  }
}

TEST(Fallback, IsToldOnceACompilationAndRuns) {
  CompileOptions options = compileOptions(false);
  std::vector<std::string> told;
  options.fallback = [&](const Fallback& f) { told.push_back(f.node + ": " + toText(f)); };
  const auto program = compile(loop(), options);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0],
            "%3: a loop that the graph interpreter executes, 3 scalar steps each time round");
  EXPECT_NE(toText(makeReport(*program, nullptr), false).find("fallback: node '%3': a loop that"),
            std::string::npos);
  const std::vector<float> x = {1, -2, 0.5};
  std::vector<float> y(3);
  const void* in[] = {x.data()};
  void* out[] = {y.data()};
  Session(program, nullptr).run(in, out);
  EXPECT_EQ(y, (std::vector<float>{33, -63, 17}));
}

TEST(Fallback, HostRoutinesAreNone) {
  CompileOptions options = compileOptions(false);
  options.fallback = nullptr;
  Builder b;
  const Value x = b.input("x", {DType::F32, {2, 1000}});
  b.graph.outputs =
      buildOp(b, {.op = "TopK", .in = {x, b.integers({3})}, .outputs = 2, .attributes = {}});
  const auto program = compile(prepareGraph(b.graph, {}, {}), options);
  EXPECT_TRUE(program->fallbacks.empty());
}

}  // namespace
}  // namespace tektite
