// Planning is near-linear: steps are counted (nodes that the oracle was asked about, stages that it costed), so that no clock is needed.
#include <algorithm>

#include "../evaluators.h"
#include "fusion/fuse.h"
#include "ir/builder.h"

namespace tektite {
namespace {

struct Planned {
  int64_t steps = 0;
  size_t kernels = 0, code = 0;  ///< characters of the plans, which share what is shared
};
Planned planned(Builder& b, std::vector<Value> outputs, const std::string& target = "cpu:avx2") {
  b.graph.outputs = std::move(outputs);
  const Fused f = fuse(b.graph, findTarget(target), {});
  Planned out{f.steps, 0, 0};
  for (const Node& n : f.graph.nodes)
    if (const Group* g = n.as<Group>()) out.kernels++, out.code += toText(*g->plan).size();
  return out;
}
Value input(Builder& b, std::vector<Expr> shape, const std::string& name = "x") {
  return b.input(name, {DType::F32, std::move(shape)});
}

Planned chain(int n) {
  Builder b;
  Value x = input(b, {1 << 16});
  for (int i = 0; i < n; i++) x = b.map("a * 1.5 + 1", {x});
  return planned(b, {x});
}
/// Rows that are normalised again and again: every layer reduces.
Planned layers(int n) {
  Builder b;
  Value x = input(b, {512, 64});
  for (int i = 0; i < n / 4; i++) {
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {1})});
    x = b.map("a / b", {e, b.reduce("sum", e, {1})});
  }
  return planned(b, {x});
}
/// Many readers of one value, each with a tail of its own, joined pairwise.
Planned wide(int n) {
  Builder b;
  const Value x = input(b, {1 << 14});
  std::vector<Value> level;
  for (int i = 0; i < n / 2; i++) level.push_back(b.map(fmt::format("a * {}.5", i), {x}));
  while (level.size() > 1) {
    std::vector<Value> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2)
      next.push_back(b.map("max(a, b)", {level[i], level[i + 1]}));
    if (level.size() % 2) next.push_back(level.back());
    level = std::move(next);
  }
  return planned(b, level);
}
/// Independent kernels side by side.
Planned apart(int n) {
  Builder b;
  std::vector<Value> all;
  for (int i = 0; i < n / 2; i++) {
    const Value x = input(b, {4096 + i % 7}, fmt::format("x{}", i));
    all.push_back(b.map("a / b", {x, b.reduce("sum", x, {0})}));
  }
  return planned(b, all);
}
Planned fibonacci(int levels) {
  Builder b;
  Value x = input(b, {4096}), y = input(b, {4096}, "y");
  for (int i = 0; i < levels; i++) {
    const Value z = b.map("a + b", {x, y});
    x = y, y = z;
  }
  return planned(b, {y});
}
Planned diamond(int branches) {
  Builder b;
  const Value x = input(b, {4096, 4096});
  std::vector<Value> level;
  for (int i = 0; i < branches; i++) level.push_back(b.map(fmt::format("exp(a * {}.5)", i), {x}));
  for (; level.size() > 1; level.resize(level.size() / 2))
    for (size_t i = 0; i < level.size() / 2; i++)
      level[i] = b.map("a * b", {level[2 * i], level[2 * i + 1]});
  return planned(b, level);
}

/// Ten times the nodes take less than twelve times the steps.
void expectNearLinear(Planned (*make)(int), const char* name, int most = 10000) {
  int64_t before = make(100).steps;
  for (int n = 1000; n <= most; n *= 10) {
    const int64_t now = make(n).steps;
    EXPECT_LT(now, 12 * before) << name << " of " << n;
    before = now;
  }
}

TEST(Planning, ChainsTakeLinearSteps) { expectNearLinear(chain, "chain"); }
TEST(Planning, LayersTakeLinearSteps) { expectNearLinear(layers, "layers", 1000); }
TEST(Planning, WideGraphsTakeLinearSteps) { expectNearLinear(wide, "wide"); }
TEST(Planning, KernelsApartTakeLinearSteps) { expectNearLinear(apart, "apart"); }

TEST(Planning, FibonacciHasLinearCode) {
  const Planned half = fibonacci(30), whole = fibonacci(60);
  EXPECT_EQ(whole.kernels, 1u);
  EXPECT_LT(whole.code, 5 * half.code / 2);
  EXPECT_LT(whole.steps, 5 * half.steps / 2);
}
TEST(Planning, DiamondIsOneKernel) {
  const Planned small = diamond(4), large = diamond(16);
  EXPECT_EQ(large.kernels, 1u);
  EXPECT_LT(large.steps, 6 * small.steps);
}

/// The bound on memory cuts kernels, and leaves them kernels: layers whose values just fit, one more value at a place and they would not.
TEST(Planning, MemoryCutsKernelsInTwo) {
  Builder b;
  Value x = input(b, {512, 64});
  for (int i = 0; i < 100; i++) {
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {1})});
    x = b.map("a / b + c", {e, b.reduce("sum", e, {1}), x});  // which no map of `x` overwrites
  }
  b.graph.outputs = {x};
  FusionOptions apart;
  apart.unfused = true;
  const Fused fused = fuse(b.graph, findTarget("cpu:avx2"), {}),
              unfused = fuse(b.graph, findTarget("cpu:avx2"), apart);
  EXPECT_LE(fused.peakBytes, unfused.peakBytes);
  const auto kernels = std::ranges::count_if(
      fused.graph.nodes, [](const Node& n) { return n.as<Group>() != nullptr; });
  EXPECT_LE(kernels, 20);
}

/// What nodes have in common is found once; constants and what lies around a view's source are not in common.
TEST(Planning, EqualNodesOfOtherOperandsAreOthers) {
  Builder b;
  std::vector<Value> out;
  for (const int64_t rows : {6, 8})
    for (const double by : {2.5, 3.5}) {
      const Value x = input(b, {rows, 64}, fmt::format("x{}", out.size()));
      const Value y = b.map("a * b", {x, b.splat(DType::F32, by)});
      const std::vector<Expr> at = {var("d0") - 1, var("d1")};
      out.push_back(b.reduce("sum", b.view(y, {10, 64}, at, imm(DType::F32, 0)), {1}));
    }
  b.graph.outputs = out;
  for (const char* target : {"cpu:avx2", "gpu-class"})
    for (const Node& n : fuse(b.graph, findTarget(target), {}).graph.nodes)
      if (const Group* g = n.as<Group>()) {
        const PlanResult alone = planGroup(*g->body, findTarget(target), {});
        ASSERT_TRUE(alone.plan);
        EXPECT_EQ(hashOf(*g->plan), hashOf(*alone.plan)) << toText(*g->plan);
      }
}

TEST(Planning, NoLargeConstantIsFolded) {
  Builder b;
  const Value iota = b.map(var("d0") * Expr(8192) + var("d1"), {}, {8192, 8192});
  b.graph.outputs = {b.map("a + 1", {iota})};
  for (const Node& n : prepareGraph(b.graph, {}, {}).nodes)
    if (const Const* c = n.as<Const>()) {
      EXPECT_LE(c->data ? c->data->bytes : 0, 1u << 20);
    }
}

}  // namespace
}  // namespace tektite
