// The register tile of a matrix product as kernel text, through the CPU pipeline, against the machine's FMA peak in the same run.
//   taskset -c 0 build/bench/gemm_tile [cpu:avx2 | cpu:avx512 ...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "backends/cpu/compiler.h"
#include "emit/llvm_text.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kDepth = 512, kTiles = 16, kRounds = 201;

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

/// A kernel that is compiled, with buffers of its own.
class Loaded {
 public:
  Loaded(const std::string& text, const Target& target, int64_t flops) : flops_(flops), code_(newLoadedCode()) {
    const KernelModule module = parseKernels(text, "bench");
    const Artifact artifact = emitLlvm(module, module.kernels[0], target, FastMath::Contract);
    const std::string assembly = compileAssembly(artifact.text, target);
    for (size_t at = 0; (at = assembly.find("-byte Spill", at)) != std::string::npos; at++) spills++;
    code_->add(compileObject(artifact.text, target));
    run_ = reinterpret_cast<KernelFunction>(code_->find(artifact.symbol));
    for (const Param& p : module.kernels[0].params) {
      size_t size = 4;
      for (const Expr& e : p.buffer.shape) size *= *asInteger(e);
      memory_.push_back(Memory(std::aligned_alloc(64, (size + 63) / 64 * 64), std::free));
      std::fill_n(static_cast<float*>(memory_.back().get()), size / 4, 0.5f);
      buffers_.push_back(memory_.back().get());
    }
  }
  /// Operations a second of one run.
  double rate() {
    const auto start = std::chrono::steady_clock::now();
    Hand alone;
    run_(buffers_.data(), nullptr, nullptr, &alone);
    return static_cast<double>(flops_) / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  int spills = 0;  ///< stores of vectors to the stack

 private:
  using Memory = std::unique_ptr<void, decltype(&std::free)>;
  int64_t flops_;
  std::unique_ptr<LoadedCode> code_;
  KernelFunction run_;
  std::vector<Memory> memory_;
  std::vector<void*> buffers_;
};

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

/// Both in turn: clocks move within milliseconds.
void report(const Target& target) {
  const bool wide = target.vectorBytes == 64;
  const int rows = wide ? 14 : 6, columns = target.vectorBytes / 4 * 2, lanes = target.vectorBytes / 4;
  const int64_t steps = int64_t{2} * kTiles * kDepth;
  Loaded peak(peakText(wide ? 24 : 12, lanes), target, steps * (wide ? 24 : 12) * lanes);
  Loaded tile(tileText(rows, columns), target, steps * rows * columns);
  std::vector<double> rates, shares;
  for (int i = 0; i < kRounds; i++) {
    const double before = peak.rate();
    rates.push_back(tile.rate());
    shares.push_back(2 * rates.back() / (before + peak.rate()));
  }
  std::printf("%-12s %dx%d tile, K = %d: %6.1f GFLOP/s, %.1f %% of the peak beside it, %d spills\n", target.name.c_str(), rows, columns, kDepth,
              median(rates) * 1e-9, 100 * median(shares), tile.spills);
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
