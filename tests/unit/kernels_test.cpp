// Which kernels share their code, and code from the cache on disk.
#include <gtest/gtest.h>

#include "../evaluators.h"
#include "test_folder.h"

namespace tektite {
namespace {

constexpr int64_t kRows = 5, kWidth = 48;

std::vector<double> numbers(int64_t n, int seed) {
  std::vector<double> out;
  for (int64_t i = 0; i < n; i++) out.push_back(static_cast<double>((i * 7919 + seed) % 101) / 500);
  return out;
}

/// Layers with weights of their own, alike but for them; the last one has another function.
Graph layers() {
  Builder b;
  Value x = b.input("x", {DType::F32, {kRows, kWidth}});
  for (int i = 0; i < 4; i++) {
    const TensorAttribute w = tensor(DType::F32, {kWidth, kWidth}, numbers(kWidth * kWidth, i));
    x = b.contract("mk,kn->mn", x, b.constant(w.type, w.data));
    x = b.map(i < 3 ? "max(a, 0.0)" : "sqrt(a)", {x});
  }
  b.graph.outputs = {x};
  return b.graph;
}

std::vector<double> run(const std::shared_ptr<const Program>& program) {
  const TensorAttribute x = tensor(DType::F32, {kRows, kWidth}, numbers(kRows * kWidth, 50));
  std::vector<float> y(kRows * kWidth);
  const void* in[] = {x.data->data};
  void* out[] = {y.data()};
  Session(program, nullptr).run(in, out);
  return {y.begin(), y.end()};
}

TEST(Kernels, LayersThatAreAlikeShareCodeAndKeepTheirWeights) {
  const Graph g = layers();
  const auto program = compile(prepareGraph(g, {}, {}), compileOptions(true));
  ASSERT_EQ(program->kernels.size(), 8u);
  const std::vector<int> expected{-1, -1, 0, 1, 0, 1, 0, -1};
  for (size_t i = 0; i < expected.size(); i++)
    EXPECT_EQ(program->kernels[i].sameAs, expected[i]) << program->kernels[i].name;
  const TensorAttribute x = tensor(DType::F32, {kRows, kWidth}, numbers(kRows * kWidth, 50));
  const TensorAttribute y = interpret(g, {x})[0];
  const std::vector<double> got = run(program);
  for (size_t i = 0; i < got.size(); i++) {
    const double right = loadFloat(DType::F32, y.data->data, static_cast<int64_t>(i));
    ASSERT_NEAR(got[i], right, 1e-5 * right) << i;
  }
}

TEST(Kernels, CodeFromTheCacheIsTheCodeThatWasStored) {
  const TestFolder folder;
  CompileOptions options = compileOptions(false);
  options.cacheFolder = folder.path;
  const Graph prepared = prepareGraph(layers(), {}, {});
  const auto made = compile(prepared, options), found = compile(prepared, options);
  options.sources = true;
  const auto shown = compile(prepared, options);
  for (size_t i = 0; i < made->kernels.size(); i++) {
    const KernelInfo &m = made->kernels[i], &f = found->kernels[i], &s = shown->kernels[i];
    EXPECT_FALSE(m.cached);
    EXPECT_TRUE((f.cached && s.cached) || m.sameAs >= 0);
    EXPECT_EQ(f.artifact.text, "");
    EXPECT_NE(m.artifact.text, "");
    EXPECT_EQ(s.artifact.text, m.artifact.text);
    EXPECT_EQ(f.artifact.symbol, m.artifact.symbol);
    EXPECT_EQ(f.artifact.needs.scratchBytes, m.artifact.needs.scratchBytes);
    EXPECT_EQ(f.artifact.needs.tiles, m.artifact.needs.tiles);
    EXPECT_EQ(f.artifact.needs.counters, m.artifact.needs.counters);
    EXPECT_EQ(f.artifact.needs.mainAllocs, m.artifact.needs.mainAllocs);
  }
  EXPECT_EQ(run(made), run(found));
}

}  // namespace
}  // namespace tektite
