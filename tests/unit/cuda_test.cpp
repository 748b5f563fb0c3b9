#include <gtest/gtest.h>

#include <filesystem>

#include "backends/backend.h"
#include "backends/cuda/nvcc.h"
#include "cuda_run.h"
#include "emit/c_source.h"
#include "onnx/import.h"
#include "runtime/compile.h"
#include "support/check.h"

namespace tektite {
namespace {

TEST(Cuda, WhatPtxasSaysIsRead) {
  const auto found = parsePtxas(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k1' for 'sm_90'\n"
      "ptxas info    : Function properties for k1\n"
      "    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 19 registers, used 1 barriers, 4352 bytes smem\n"
      "ptxas info    : Compiling entry function 'k2' for 'sm_90'\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("k1").registers, 19);
  EXPECT_EQ(found.at("k1").spillBytes, 20);
  EXPECT_EQ(found.at("k1").sharedBytes, 4352);
  EXPECT_EQ(found.at("k1").barriers, 1);
  EXPECT_EQ(found.at("k2").registers, 8);
  EXPECT_EQ(found.at("k2").barriers, 0);
}

TEST(Cuda, WhatNvdisasmSaysIsRead) {
  const auto found = parseSass(
      ".text.k1:\n"
      ".L_x_0:\n"
      "        /*0000*/                   LDG.E.128 R4, desc[UR4][R2.64] ;\n"
      "        /*0010*/              @!P0 LDG.E R8, desc[UR4][R6.64] ;\n"
      "        /*0020*/                   FFMA R1, R2, R3, R4 ;\n"
      "        /*0030*/               @P1 EXIT ;\n"
      ".text.k2:\n"
      "        /*0000*/                   NOP;\n");
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(found, (std::map<std::string, Counts>{{"k1", {{"LDG", 2}, {"FFMA", 1}, {"EXIT", 1}}},
                                                  {"k2", {{"NOP", 1}}}}));
}

CompileOptions textsFor(const std::string& target) {
  CompileOptions options;
  options.target = findTarget(target);
  options.code = false;
  return options;
}

/// The distinct kernels of a model.
std::vector<Artifact> kernelsOf(const Graph& model, const std::string& target) {
  const auto program = compile(prepareGraph(model, {}, {}), textsFor(target));
  std::vector<Artifact> out;
  for (const KernelInfo& k : program->kernels)
    if (k.sameAs < 0 && !k.artifact.text.empty()) out.push_back(k.artifact);
  return out;
}

/// All kernels of some models in one file each architecture; none spills.
TEST(Cuda, KernelsOfModelsCompile) {
  if (!hasNvcc()) GTEST_SKIP() << "no nvcc";
  for (const char* arch : {"sm_80", "sm_90"}) {
    std::map<std::string, Artifact> all;
    for (const char* model : {"transformer", "convnet", "quantised", "unet"}) {
      for (const auto& entry : std::filesystem::directory_iterator(
               std::filesystem::path(TEKTITE_TESTS) / "models" / model))
        if (entry.path().extension() == ".onnx")
          for (Artifact& a : kernelsOf(importOnnx(entry.path()), fmt::format("cuda:{}", arch)))
            all.emplace(a.symbol, std::move(a));
    }
    ASSERT_GE(all.size(), 4u);
    std::vector<const Artifact*> artifacts;
    for (const auto& [symbol, a] : all) artifacts.push_back(&a);
    const auto made = runNvcc(sourceOf(artifacts), arch, "");
    ASSERT_TRUE(made);
    EXPECT_GE(made->resources.size(), all.size());
    for (const auto& [entry, r] : made->resources) {
      EXPECT_EQ(r.spillBytes, 0) << arch << ": " << entry;
      EXPECT_GT(r.registers, 0);
    }
  }
}

size_t occurrences(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) n++;
  return n;
}

void expectThreeLoadsAndAStore(const NvccOutput& made) {
  EXPECT_EQ(made.resources.begin()->second.spillBytes, 0);
  EXPECT_LE(made.resources.begin()->second.registers, 19);
  EXPECT_EQ(occurrences(made.ptx, "ld.global"), 3u) << made.ptx;
  EXPECT_EQ(occurrences(made.ptx, "ld.global.nc.v4") + occurrences(made.ptx, "ld.global.v4"), 3u);
  EXPECT_EQ(occurrences(made.ptx, "st.global"), 1u);
  EXPECT_EQ(occurrences(made.ptx, "st.global.v4"), 1u);
}

/// Bias, activation and a residual sum in one kernel, four elements a thread: 3 wide loads, 1 wide store; fused by hand it takes 19 registers.
TEST(Cuda, ElementwiseChainIsThreeLoadsAndAStore) {
  if (!hasNvcc()) GTEST_SKIP() << "no nvcc";
  const KernelModule one = parseKernels(
      "kernel chain(x: f32[4096x1024], b: f32[1024], r: f32[4096x1024], out y: f32[4096x1024]) {\n"
      "  for i in 4096 parallel {\n    for t in 256 thread {\n      for l in 4 vector {\n"
      "        y[i, t * 4 + l] = max(x[i, t * 4 + l] + b[t * 4 + l], 0) + r[i, t * 4 + l]\n"
      "      }\n    }\n  }\n}\n",
      "chain");
  const Artifact text =
      emitC(one, one.kernels[0], findTarget("cuda:sm_90"), Numerics::Ordered, cudaCpp());
  const auto made = runNvcc(sourceOf({&text}), "sm_90", "");
  ASSERT_TRUE(made);
  expectThreeLoadsAndAStore(*made);

  const Graph graph = parseGraph(
      "graph (x: f32[4096x1024], b: f32[1x1024], r: f32[4096x1024]) {\n"
      "  %1 = map (x, b, r) { max($0 + $1, 0) + $2 } : f32[4096x1024]\n"
      "  return %1\n}\n",
      "chain");
  const auto kernels = kernelsOf(graph, "cuda:sm_90");
  ASSERT_EQ(kernels.size(), 1u);
  const auto lowered = runNvcc(sourceOf({&kernels[0]}), "sm_90", "");
  ASSERT_TRUE(lowered);
  expectThreeLoadsAndAStore(*lowered);
  if (!hasNvdisasm()) return;
  for (const NvccOutput* one : {&*made, &*lowered}) {
    const auto& sass = one->resources.begin()->second.instructions;
    EXPECT_EQ(sass.at("LDG"), 3);
    EXPECT_EQ(sass.at("STG"), 1);
    EXPECT_EQ(sass.count("BAR"), 0u);
  }
}

// ---- kernels on a CPU

TEST(CudaOnCpu, HandWrittenKernelsOfTeams) {
  for (const char* name : {"gpu_softmax", "gpu_gemm"}) {
    const std::string text = testing::readText(std::filesystem::path(TEKTITE_TESTS) / "kernel" /
                                               (std::string(name) + ".tk"));
    checkOnCpu(parseKernels(text, name), testing::parseShapes(testing::header(text, "test")),
               findTarget("test:sm_80"), 1e-5);
  }
}

TEST(CudaOnCpu, EachLaneHasItsOwn) {
  const KernelModule one = parseKernels(
      "kernel lanes(x: f32[64], out y: f32[64], out z: f32[64]) {\n"
      "  for i in 1 parallel {\n    for t in 16 thread {\n      for l in 4 vector {\n"
      "        alloc w: f32@reg\n"
      "        w = x[t * 4 + l] * 2\n"
      "        y[t * 4 + l] = w\n"
      "        z[t * 4 + l] = select(0 < w, (w + 1) * (w + 1), w)\n"
      "      }\n    }\n  }\n}\n",
      "lanes");
  checkOnCpu(one, {{}}, findTarget("test:sm_80"), 1e-6);
}

TEST(CudaOnCpu, LoweredKernels) {
  const std::string text =
      testing::readText(std::filesystem::path(TEKTITE_TESTS) / "team" / "kernels.tk");
  constexpr int kSome = 4;  // each is compiled, and runs as hundreds of threads
  int checked = 0;
  for (size_t at = 0; checked < kSome && (at = text.find("----\nkernel", at)) != std::string::npos;
       at += 5) {
    const size_t end = std::min(text.find("\n# case:", at), text.size());
    checkOnCpu(parseKernels(text.substr(at + 5, end - at - 5), "kernels"), {{}},
               findTarget("test:sm_80"), 1e-5);
    checked++;
  }
  EXPECT_EQ(checked, kSome);
}

}  // namespace
}  // namespace tektite
