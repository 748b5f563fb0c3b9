// What is alive at once between kernels: in the arena of a compiled program, whatever was fused.
#include <gtest/gtest.h>

#include <filesystem>

#include "fuzz/random_graph.h"
#include "ir/builder.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "runtime/compile.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr const char* kTargets[] = {"cpu:avx2", "gpu-class"};

int64_t arenaOf(const Graph& prepared, const char* target, bool unfused) {
  CompileOptions options;
  options.target = findTarget(target);
  options.fusion.unfused = unfused;
  options.code = false;
  return compile(prepared, options)->arenaBytes;
}

TEST(Peak, OfRandomGraphsIsNoMoreThanUnfused) {
  for (uint64_t seed = 0; seed < 40; seed++) {
    RandomGraphOptions shape;
    shape.nodes = 40;
    const Graph g = runPasses(randomGraph(seed, shape), {});
    for (const char* target : kTargets)
      EXPECT_LE(arenaOf(g, target, false), arenaOf(g, target, true)) << seed << " " << target;
  }
}

TEST(Peak, OfModelsIsNoMoreThanUnfused) {
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TEKTITE_TESTS) / "models")) {
    const std::filesystem::path file = entry.path() / "model.onnx";
    if (!std::filesystem::exists(file)) continue;
    Graph g;
    try {
      g = prepareGraph(importOnnx(file.string(), {}), {}, {});
    } catch (const UserError&) {
      continue;  // a model in parts
    }
    for (const char* target : kTargets)
      EXPECT_LE(arenaOf(g, target, false), arenaOf(g, target, true)) << file << " " << target;
    models++;
  }
  EXPECT_GE(models, 5);
}

/// A product, and two maps of it in a row, one of them through a reshape: each is stored where the one before lay.
TEST(Peak, MapsTakeThePlaceOfWhatTheyRead) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64, 256}}), w = b.input("w", {DType::F32, {64, 1024}});
  b.origin = "product";
  const Value wide = b.contract("ki,kn->in", x, w);
  b.origin = "first";
  const Value first = b.map("tanh(a)", {wide});
  b.origin = "second";
  const Value second = b.map("exp(a)", {b.reshape(first, {256, 32, 32})});
  b.origin = "sum";
  b.graph.outputs = {b.reduce("sum", second, {1, 2})};
  FusionOptions apart;
  apart.unfused = true;
  for (const char* target : kTargets) {
    EXPECT_EQ(fuse(b.graph, findTarget(target), apart).peakBytes, 256 * 1024 * 4) << target;
    EXPECT_EQ(arenaOf(b.graph, target, true), 256 * 1024 * 4) << target;
  }
}

}  // namespace
}  // namespace tektite
