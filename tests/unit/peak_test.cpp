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

/// Parts of a spectrum, each squared in another order of its axes: layouts follow the products, so that a square lies where the part lay. What
/// is fused needs no more than that.
TEST(Peak, LayoutsLetMapsTakeThePlaceOfProducts) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {1, 17280}});
  const std::vector<Expr> at = {Expr(0), var("d2") * 160 + var("d3")};
  const std::vector<Expr> turned = {Expr(0), var("d3"), var("d2")};
  std::vector<Value> squares;
  for (const char* part : {"real", "imaginary"}) {
    const auto numbers = std::make_shared<std::vector<float>>(257 * 512, 0.5F);
    auto data = std::make_shared<ConstData>();
    data->data = numbers->data();
    data->bytes = numbers->size() * sizeof(float);
    data->owner = numbers;
    b.origin = part;
    const Value w = b.constant({DType::F32, {257, 1, 512}}, data, part);
    const Value y = b.contract("ncpi,oci->nop", b.view(x, {1, 1, 105, 512}, at), w);
    b.origin = fmt::format("{} squared", part);
    squares.push_back(b.map("a * a", {b.view(y, {1, 1, 105, 257}, turned)}));
  }
  b.origin = "sum";
  const Value sum = b.map("a + b", squares);
  b.origin = "bands";
  const Value bands = b.input("bands", {DType::F32, {257, 32}});
  b.graph.outputs = {b.map("log(a)", {b.contract("nbps,sm->nbpm", sum, bands)})};
  b.graph.outputs = {b.reduce("max", b.graph.outputs[0], {0, 1, 2, 3})};
  const int64_t part = 257 * 105 * 4;
  for (const char* target : {"cpu:avx2", "cpu:avx512"}) {
    const int64_t unfused = arenaOf(b.graph, target, true);
    EXPECT_LE(unfused, 2 * part + 2 * 64) << target;  // as two of them, each at a line's begin
    EXPECT_LE(arenaOf(b.graph, target, false), unfused) << target;
  }
}

}  // namespace
}  // namespace tektite
