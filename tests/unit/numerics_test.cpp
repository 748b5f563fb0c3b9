// What the numerics modes promise, bit by bit: `strict` fused is `strict` unfused, `ordered` doesn't depend on threads, runs or compilations,
// `fast` says so to LLVM.
#include <cmath>

#include "../evaluators.h"
#include "bits.h"
#include "fuzz/random_graph.h"
#include "fuzz_seeds.h"
#include "golden.h"
#include "small_models.h"
#include "support/check.h"

namespace tektite {
namespace {

CompileOptions optionsOf(Numerics numerics, bool unfused = false, int threads = 1) {
  CompileOptions o = compileOptions(unfused);
  o.fusion.numerics = o.passes.numerics = numerics;
  o.threads = threads;
  return o;
}

Graph fuzzGraph(uint64_t seed) {
  RandomGraphOptions shape;
  shape.nodes = 4 + static_cast<int>(seed % 12);
  shape.jumps = true;
  return seed % 5 == 4 ? randomScan(seed, shape) : randomGraph(seed, shape);
}

void expectStrict(const Graph& model, const std::string& name, uint64_t seed) {
  const CompileOptions fused = optionsOf(Numerics::Strict),
                       apart = optionsOf(Numerics::Strict, true);
  const Graph g = prepareGraph(model, {}, fused.passes);
  const std::vector<Tensor> in = randomInputs(g, seed, seed % 3 == 0);
  EXPECT_EQ(difference(runOn(compile(g, fused), in), runOn(compile(g, apart), in)), "")
      << name << "\n"
      << toText(g);
}

TEST(Numerics, StrictFusedHasTheBitsOfStrictUnfused) {
  for (const NamedGraph& m : smallModels()) expectStrict(m.graph, m.name, 1);
}

TEST(Numerics, StrictRandomGraphs) {
  const Seeds seeds = fuzzSeeds(40);
  for (uint64_t s = seeds.first; s < seeds.last && !HasFailure(); s++)
    expectStrict(fuzzGraph(s), fmt::format("seed {}", s), s);
}

/// Every pattern that tests/fusion has a text of.
std::vector<Graph> patterns() {
  std::vector<Graph> out;
  for (const auto& file : goldenFiles("fusion"))
    for (const std::string& text : goldenTexts(file)) {
      out.push_back(parseGraph(text, file.filename().string()));
      for (size_t n = 0; n < out.back().nodes.size(); n++)  // a kernel for each node, unfused
        out.back().nodes[n].origin = "%" + std::to_string(n);
    }
  return out;
}
TEST(Numerics, StrictPatternsHaveTheBitsOfTheirNodes) {
  for (const Graph& g : patterns()) expectStrict(g, toText(g), 1);
}

/// Sums in ascending order, each product rounded: what a plain loop gives.
TEST(Numerics, StrictSumsInCanonicalOrder) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {3, 50, 700}}),
              y = b.input("y", {DType::F32, {700, 4}});
  b.graph.outputs = {b.reduce("sum", b.map("a * a", {x}), {0, 2}), b.contract("abk,kn->abn", x, y)};
  const std::vector<Tensor> in = randomInputs(b.graph, 3, false);
  const auto at = [&](int t, int64_t i) { return static_cast<float>(in[t].at(i)); };
  const Results got =
      runOn(compile(prepareGraph(b.graph, {}, {}), optionsOf(Numerics::Strict)), in);
  const float *squares = static_cast<const float*>(got[0].data()),
              *products = static_cast<const float*>(got[1].data());
  for (int64_t m = 0; m < 50; m++) {
    volatile float sum = 0;  // every step is rounded
    for (int64_t a = 0; a < 3; a++)
      for (int64_t k = 0; k < 700; k++) {
        volatile float p = at(0, (a * 50 + m) * 700 + k) * at(0, (a * 50 + m) * 700 + k);
        sum = sum + p;
      }
    ASSERT_EQ(squares[m], sum) << m;
  }
  for (int64_t m = 0; m < 150; m++)
    for (int64_t n = 0; n < 4; n++) {
      volatile float sum = 0;
      for (int64_t k = 0; k < 700; k++) {
        volatile float p = at(0, m * 700 + k) * at(1, k * 4 + n);
        sum = sum + p;
      }
      ASSERT_EQ(products[m * 4 + n], sum) << m << " " << n;
    }
}

/// 2^-140 and sums of it: `strict` keeps them; elsewhere kernels that sum products may take them as zero, others keep them. What the caller's
/// floating-point environment is, it stays.
TEST(Numerics, SubnormalsInSumsOfProducts) {
  constexpr int64_t kTerms = 64;
  const double tiny = std::ldexp(1.0, -140);
  Builder b;
  const Value x = b.input("x", {DType::F32, {4, kTerms}}),
              y = b.input("y", {DType::F32, {kTerms, 8}}), z = b.input("z", {DType::F32, {32}});
  b.graph.outputs = {b.contract("mk,kn->mn", x, y), b.map("a + a", {z})};
  std::vector<Tensor> in = randomInputs(b.graph, 1, false);
  for (const int t : {0, 1, 2}) std::fill_n(in[t].reals(), in[t].elements(), t == 1 ? 1.0 : tiny);
  for (const Numerics mode : {Numerics::Strict, Numerics::Ordered, Numerics::Fast}) {
    const Graph g = prepareGraph(b.graph, {}, optionsOf(mode).passes);
    for (const bool unfused : {false, true}) {
      const Results got = runOn(compile(g, optionsOf(mode, unfused)), in);
      const auto at = [&](int o, int64_t i) { return loadFloat(DType::F32, got[o].data(), i); };
      for (int64_t i = 0; i < 32; i++) {
        const bool kept = at(0, i) == kTerms * tiny;
        EXPECT_TRUE(kept || (mode != Numerics::Strict && at(0, i) == 0)) << at(0, i);
        EXPECT_EQ(at(1, i), 2 * tiny);
      }
      volatile float half = std::numeric_limits<float>::min();
      half = half / 2;
      EXPECT_GT(half, 0.0f);
    }
  }
}

/// `runs` of a compilation for each number of threads.
void expectSameBits(const Graph& model, const std::string& name, uint64_t seed, Numerics numerics,
                    int runs, const std::vector<int>& numbers = {1, 2, 2, 4, 8}) {
  const Graph g = prepareGraph(model, {}, optionsOf(numerics).passes);
  const std::vector<Tensor> in = randomInputs(g, seed, false);
  Results first;
  for (const int threads : numbers) {
    Team team(threads);
    const auto program = compile(g, optionsOf(numerics, false, threads));
    for (int run = 0; run < runs; run++) {
      Results now = runOn(program, in, &team);
      if (first.empty())
        first = std::move(now);
      else
        EXPECT_EQ(difference(first, now), "") << name << ", threads " << threads;
    }
  }
}

TEST(Numerics, OrderedBitsDontDependOnThreadsRunsOrCompilations) {
  for (const NamedGraph& m : smallModels())
    expectSameBits(m.graph, m.name, 2, Numerics::Ordered, 20);  // 100 in all
  const Seeds seeds = fuzzSeeds(10);
  for (uint64_t s = seeds.first; s < seeds.last && !HasFailure(); s++)
    expectSameBits(fuzzGraph(s), fmt::format("seed {}", s), s, Numerics::Ordered, 3);
}

TEST(Numerics, OrderedPatternsHaveTheSameBitsOnAnyNumberOfThreads) {
  for (const Graph& g : patterns())
    expectSameBits(g, toText(g), 2, Numerics::Ordered, 2, {1, 3, 8});
}

TEST(Numerics, StrictBitsNeither) {
  for (const NamedGraph& m : smallModels())
    if (m.name != "sums over all kinds of axes")  // the longest to compile
      expectSameBits(m.graph, m.name, 2, Numerics::Strict, 2);
}

std::string llvmOf(const std::string& body, Numerics numerics) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64}}), y = b.input("y", {DType::F32, {64}});
  b.graph.outputs = {b.map(body, {x, y})};
  CompileOptions options = optionsOf(numerics);
  options.code = false;
  options.target = findTarget("cpu:avx512");
  return compile(prepareGraph(b.graph, {}, options.passes), options)->kernels.at(0).artifact.text;
}
size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
  return n;
}

TEST(Numerics, FlagsOfLlvm) {
  const std::string body = "a * b + a / b";
  EXPECT_EQ(count(llvmOf(body, Numerics::Strict), "contract"), 0u);
  EXPECT_EQ(count(llvmOf(body, Numerics::Strict), "fmul <"), 1u);
  EXPECT_EQ(count(llvmOf(body, Numerics::Ordered), "fmul contract <"), 1u);
  EXPECT_EQ(count(llvmOf(body, Numerics::Ordered), "reassoc"), 0u);
  for (const char* op : {"fmul", "fadd", "fdiv"})
    EXPECT_EQ(count(llvmOf(body, Numerics::Fast), std::string(op) + " contract reassoc arcp afn <"),
              1u)
        << op;
  for (const char* never : {"nnan", "ninf", "nsz", " fast "})
    EXPECT_EQ(count(llvmOf(body, Numerics::Fast), never), 0u) << never;
  const std::string functions =
      llvmOf("exp(a) * log(b)", Numerics::Fast);  // their own steps keep their order
  EXPECT_EQ(count(functions, "reassoc"), 1u) << functions;
}

TEST(Numerics, FastIsCloseAndKeepsSpecialValues) {
  for (const NamedGraph& m : smallModels()) {
    const CompileOptions options = optionsOf(Numerics::Fast);
    const Graph g = prepareGraph(m.graph, {}, options.passes);
    const std::vector<Tensor> in = randomInputs(g, 5, false);
    const Results got = runOn(compile(g, options), in);
    const std::vector<Tensor> want = evaluate(prepareGraph(m.graph, {}, {}), in);
    if (m.name == "halves") continue;  // the interpreter doesn't round them
    for (size_t o = 0; o < got.size(); o++) {
      double most = 0;
      for (int64_t i = 0; i < want[o].elements(); i++)
        most = std::max(most, std::fabs(want[o].at(i)));
      for (int64_t i = 0; i < want[o].elements() && isFloat(got[o].type); i++)
        ASSERT_NEAR(loadFloat(got[o].type, got[o].data(), i), want[o].at(i), 2e-5 * most)
            << m.name << " " << o << " " << i;
    }
  }
  Builder b;
  b.graph.outputs = {b.map("exp(a) + max(a, 0) * 0", {b.input("x", {DType::F32, {4}})})};
  const Results got = runOn(compile(prepareGraph(b.graph, {}, {}), optionsOf(Numerics::Fast)),
                            {Tensor::of(DType::F32, {4}, {NAN, -INFINITY, 0, 1})});
  const float* y = static_cast<const float*>(got[0].data());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 1);
  EXPECT_NEAR(y[3], 2.7182818, 1e-5);
}

}  // namespace
}  // namespace tektite
