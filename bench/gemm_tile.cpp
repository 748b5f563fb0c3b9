// The register tile of a matrix product as kernel text, through the CPU pipeline, against the machine's FMA peak in the same run.
//   taskset -c 0 build/bench/gemm_tile [cpu:avx2 | cpu:avx512 ...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backends/cpu/compiler.h"
#include "emit/llvm_text.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kDepth = 512, kTiles = 16, kRounds = 60;

/// Accumulators only: what the machine's FMA units can do.
std::string peakText(int rows, int lanes) {
  return fmt::format(R"(
kernel peak(x: f32[{1}], out c: f32[{0} x {1}]) {{
  for t in {2} parallel {{
    alloc acc: f32[{0}x{1}]@reg
    for r in {0} unroll {{ for l in {1} vector {{ acc[r, l] = x[l] }} }}
    for k in {3} serial {{
      for r in {0} unroll {{ for l in {1} vector {{ acc[r, l] = acc[r, l] * x[l] + x[l] }} }}
    }}
    for r in {0} unroll {{ for l in {1} vector {{ c[r, l] = acc[r, l] }} }}
  }}
}})", rows, lanes, kTiles, kDepth);
}

std::string tileText(int rows, int columns) {
  return fmt::format(R"(
kernel tile(a: f32[{2} x {3} x {0}] align=64, b: f32[{3} x {1}] align=64, out c: f32[{2} x {0} x {1}] align=64) {{
  for t in {2} parallel {{
    alloc acc: f32[{0}x{1}]@reg
    for r in {0} unroll {{ for l in {1} vector {{ acc[r, l] = 0 }} }}
    for k in {3} serial {{
      for r in {0} unroll {{ for l in {1} vector {{ acc[r, l] += a[t, k, r] * b[k, l] }} }}
    }}
    for r in {0} unroll {{ for l in {1} vector {{ c[t, r, l] = acc[r, l] }} }}
  }}
}})", rows, columns, kTiles, kDepth);
}

struct Measured {
  double gigaflops;
  int spills;  // stores of vectors to the stack
};

Measured measure(const std::string& text, const Target& target, int64_t flops) {
  const KernelModule module = parseKernels(text, "bench");
  const Artifact artifact = emitLlvm(module, module.kernels[0], target, FastMath::Contract);
  const std::string assembly = compileAssembly(artifact.text, target);
  int spills = 0;
  for (size_t at = 0; (at = assembly.find("-byte Spill", at)) != std::string::npos; at++) spills++;
  const auto code = newLoadedCode();
  code->add(compileObject(artifact.text, target));
  const auto run = reinterpret_cast<KernelFunction>(code->find(artifact.symbol));
  std::vector<void*> buffers;
  for (const Param& p : module.kernels[0].params) {
    size_t size = 4;
    for (const Expr& e : p.buffer.shape) size *= *asInteger(e);
    buffers.push_back(std::aligned_alloc(64, (size + 63) / 64 * 64));
    std::fill_n(static_cast<float*>(buffers.back()), size / 4, 0.5f);
  }
  double best = 1e9;
  for (int i = 0; i < kRounds; i++) {
    const auto start = std::chrono::steady_clock::now();
    Hand alone;
    run(buffers.data(), nullptr, nullptr, &alone);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (void* b : buffers) std::free(b);
  return {static_cast<double>(flops) / best * 1e-9, spills};
}

void report(const Target& target) {
  const bool wide = target.vectorBytes == 64;
  const int rows = wide ? 14 : 6, columns = target.vectorBytes / 4 * 2, lanes = target.vectorBytes / 4;
  const int64_t steps = int64_t{2} * kTiles * kDepth;
  const Measured peak = measure(peakText(wide ? 24 : 12, lanes), target, steps * (wide ? 24 : 12) * lanes);
  const Measured tile = measure(tileText(rows, columns), target, steps * rows * columns);
  std::printf("%-12s peak %6.1f GFLOP/s   %dx%d tile, K = %d: %6.1f GFLOP/s, %.1f %% of it, %d spills\n", target.name.c_str(), peak.gigaflops,
              rows, columns, kDepth, tile.gigaflops, 100 * tile.gigaflops / peak.gigaflops, tile.spills);
}

}  // namespace
}  // namespace tektite

int main(int argc, char** argv) {
  using namespace tektite;
  try {
    std::vector<std::string> names(argv + 1, argv + argc);
    if (names.empty()) names = {"cpu:avx2", "cpu:avx512"};
    for (const std::string& name : names) report(findTarget(name));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gemm_tile: %s\n", e.what());
    return 2;
  }
}
