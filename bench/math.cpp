// The functions of ops/math through the CPU pipeline: speed of one core on data in L1, and errors over every f32.
//   taskset -c 0 build/bench/math [cpu:avx2 ...]            elements a second, instructions of the loop a vector
//   build/bench/math --all [cpu:avx2] [function ...]        largest error over all 2^32 arguments, against libm in f64 (two minutes each)
//   build/bench/math --core [cpu:avx2] [function ...]       the same over all with 2^-13 <= |x| <= 1e5 (ten seconds each)
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "backends/cpu/compiler.h"
#include "emit/llvm_text.h"
#include "ir/scalar_eval.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kElements = 4096;
constexpr int kRounds = 2000;

bool isFunction(const OpInfo& i) { return i.op >= Op::Exp && i.op <= Op::Fmod; }

struct Compiled {
  std::unique_ptr<LoadedCode> code;
  KernelFunction run;
  std::string assembly;
};

/// y[i] = op(x[i]), or op(x[i], z[i]), for kElements elements.
Compiled compile(const OpInfo& op, const Target& target, FastMath mode) {
  const int lanes = target.vectorBytes / 4;
  const std::string element = fmt::format("[i * {} + l]", lanes), second = op.arity > 1 ? ", z" + element : "";
  const std::string text = fmt::format(R"(
kernel f(x: f32[{0}] align=64, z: f32[{0}] align=64, out y: f32[{0}] align=64) {{
  for t in 1 parallel {{
    for i in {1} serial {{
      for l in {2} vector {{ y{3} = {4}(x{3}{5}) }}
    }}
  }}
}})", kElements, kElements / lanes, lanes, element, op.name, second);
  const KernelModule module = parseKernels(text, "bench");
  const Artifact artifact = emitLlvm(module, module.kernels[0], target, mode);
  Compiled out{newLoadedCode(), nullptr, compileAssembly(artifact.text, target)};
  out.code->add(compileObject(artifact.text, target));
  out.run = reinterpret_cast<KernelFunction>(out.code->find(artifact.symbol));
  return out;
}

void call(const Compiled& f, const float* x, const float* z, float* y) {
  void* const buffers[] = {const_cast<float*>(x), const_cast<float*>(z), y};
  Hand alone;
  f.run(buffers, nullptr, nullptr, &alone);
}

/// Instructions of the longest stretch without a label.
int loopInstructions(const std::string& assembly) {
  int longest = 0, length = 0;
  for (size_t at = 0; at < assembly.size();) {
    const size_t end = std::min(assembly.find('\n', at), assembly.size());
    const std::string_view line = std::string_view(assembly).substr(at, end - at);
    if (!line.empty() && line[0] != '\t' && line[0] != '#' && line[0] != ' ') length = 0;
    else if (line.size() > 1 && line[0] == '\t' && line[1] != '.' && line[1] != '#') longest = std::max(longest, ++length);
    at = end + 1;
  }
  return longest;
}

struct Aligned {
  explicit Aligned(float value) : data(static_cast<float*>(std::aligned_alloc(64, kElements * 4))) { std::fill_n(data, kElements, value); }
  ~Aligned() { std::free(data); }
  float* data;
};

double elementsPerSecond(const std::function<void()>& run) {
  double best = 1e9;
  for (int i = 0; i < kRounds; i++) {
    const auto start = std::chrono::steady_clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return static_cast<double>(kElements) / best;
}

float libm(const OpInfo& op, float x, float z) {
  switch (op.op) {
    case Op::Exp: return std::exp(x);
    case Op::Log: return std::log(x);
    case Op::Erf: return std::erf(x);
    case Op::Tanh: return std::tanh(x);
    case Op::Sin: return std::sin(x);
    case Op::Cos: return std::cos(x);
    case Op::Pow: return std::pow(x, z);
    default: return NAN;
  }
}

void speed(const Target& target) {
  Aligned x(0), z(1.7f), y(0);
  for (int i = 0; i < kElements; i++) x.data[i] = 0.001f + 0.9f * static_cast<float>(i) / kElements;
  std::printf("%-10s %-8s %10s %6s   %10s %6s   %10s\n", target.name.c_str(), "function", "M/s", "instr", "fast M/s", "instr", "libm M/s");
  for (const OpInfo& op : allOps()) {
    if (!isFunction(op)) continue;
    std::printf("%-10s %-8s", "", std::string(op.name).c_str());
    for (FastMath mode : {FastMath::Contract, FastMath::Fast}) {
      const Compiled f = compile(op, target, mode);
      std::printf(" %10.0f %6d  ", elementsPerSecond([&] { call(f, x.data, z.data, y.data); }) * 1e-6, loopInstructions(f.assembly));
    }
    if (!std::isnan(libm(op, 0.5f, 1)))
      std::printf(" %10.0f", 1e-6 * elementsPerSecond([&] {
                               for (int i = 0; i < kElements; i++) y.data[i] = libm(op, x.data[i], z.data[i]);
                             }));
    std::printf("\n");
    std::fflush(stdout);
  }
}

double errorUlp(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : INFINITY;
  const double clamped = std::clamp(exact, -0x1p128, 0x1p128);
  const double difference = std::fabs((std::isinf(got) ? std::copysign(0x1p128, got) : got) - clamped);
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(clamped) >> 52 & 2047) - 1023;
  return difference * std::bit_cast<double>(static_cast<uint64_t>(23 - std::clamp(exponent, -126, 127) + 1023) << 52);
}

struct Worst {
  double ulp = 0;
  float at = 0;
};

/// Over the bit patterns from `from` to `to` whose value is in [-bound, bound].
Worst worstOf(const OpInfo& op, const Compiled& f, float bound, uint64_t from, uint64_t to) {
  Aligned x(0), y(0);
  Worst worst;
  for (uint64_t b = from; b < to; b += kElements) {
    for (int64_t i = 0; i < kElements; i++) x.data[i] = std::bit_cast<float>(static_cast<uint32_t>(b + static_cast<uint64_t>(i)));
    call(f, x.data, x.data, y.data);
    for (int64_t i = 0; i < kElements; i++) {
      const double wide = x.data[i];
      if (std::fabs(wide) > bound) continue;
      const double ulp = errorUlp(y.data[i], evalFloat(op.op, std::span(&wide, 1)));
      if (ulp > worst.ulp) worst = {ulp, x.data[i]};
    }
  }
  return worst;
}

void everyFloat(const OpInfo& op, const Target& target, bool core) {
  const bool trigonometric = op.op == Op::Sin || op.op == Op::Cos || op.op == Op::Tan;
  const Compiled f = compile(op, target, FastMath::Contract);
  Worst parts[2];
  std::vector<std::thread> team;
  const uint64_t from = core ? 0x39000000 : 0, to = core ? 0x47c40000 : uint64_t{1} << 31;
  for (uint64_t sign : {0, 1})
    team.emplace_back([&, sign] { parts[sign] = worstOf(op, f, trigonometric || core ? 1e5f : INFINITY, (sign << 31) + from, (sign << 31) + to); });
  for (std::thread& t : team) t.join();
  const Worst& w = parts[0].ulp < parts[1].ulp ? parts[1] : parts[0];
  std::printf("%-10s %-8s %8.3f ulp at %.9g\n", target.name.c_str(), std::string(op.name).c_str(), w.ulp, w.at);
  std::fflush(stdout);
}

void run(std::vector<std::string> args) {
  const bool core = !args.empty() && args[0] == "--core", all = core || (!args.empty() && args[0] == "--all");
  if (all) args.erase(args.begin());
  std::vector<Target> targets;
  std::vector<const OpInfo*> ops;
  for (const std::string& a : args) {
    if (const OpInfo* op = opFromName(a)) ops.push_back(op);
    else targets.push_back(findTarget(a));
  }
  if (targets.empty()) targets = {hostTarget()};
  if (ops.empty())
    for (const OpInfo& i : allOps())
      if (isFunction(i)) ops.push_back(&i);
  for (const Target& t : targets) {
    if (!all) speed(t);
    for (const OpInfo* op : ops)
      if (all && op->arity == 1) everyFloat(*op, t, core);
  }
}

}  // namespace
}  // namespace tektite

int main(int argc, char** argv) {
  try {
    tektite::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "math: %s\n", e.what());
    return 2;
  }
}
