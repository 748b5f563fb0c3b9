#include <cpuid.h>
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <sched.h>

#include <fstream>

#include "ir/target.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kMainBytesPerCore = 20e9;  // a guess: `tektite machine --measure` says better
constexpr int kCoresThatSaturateMain = 10;  // likewise

struct Cpuid {
  unsigned a = 0, b = 0, c = 0, d = 0;
  explicit Cpuid(unsigned leaf, unsigned sub = 0) {
    if (!__get_cpuid_count(leaf, sub, &a, &b, &c, &d)) a = b = c = d = 0;
  }
};

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::string firstLine(const std::string& file) {
  std::string line;
  std::ifstream in(file);
  std::getline(in, line);
  return line;
}

/// How many processors a list such as `0-3,8` names.
int countOf(const std::string& list) {
  int count = 0;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    int first = 0, last = 0;
    const int read = std::sscanf(list.substr(at, end - at).c_str(), "%d-%d", &first, &last);
    count += read == 2 ? last - first + 1 : read;
    at = end + 1;
  }
  return count;
}

struct Cache {
  int64_t bytes = 0;
  int sharers = 1;
};

/// Data caches by level, from the system, else from CPUID.
std::vector<Cache> caches() {
  std::vector<Cache> out(4);
  for (int i = 0; i < 8; i++) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string level = firstLine(folder + "level"), size = firstLine(folder + "size");
    if (level.empty() || size.empty() || firstLine(folder + "type") == "Instruction" ||
        level[0] < '1' || level[0] > '3')
      continue;
    const int64_t unit = size.back() == 'M' ? 1 << 20 : size.back() == 'K' ? 1 << 10 : 1;
    out[level[0] - '0'] = {std::atoll(size.c_str()) * unit,
                           std::max(1, countOf(firstLine(folder + "shared_cpu_list")))};
  }
  if (out[1].bytes) return out;
  for (unsigned leaf : {0x4u, 0x8000001du})
    for (unsigned i = 0; i < 8; i++) {
      const Cpuid c(leaf, i);
      const unsigned type = c.a & 31, level = c.a >> 5 & 7;
      if (type == 0) break;
      if (type == 2 || level > 3) continue;
      const int64_t bytes =
          int64_t((c.b >> 22) + 1) * ((c.b >> 12 & 1023) + 1) * ((c.b & 4095) + 1) * (c.c + 1);
      if (!out[level].bytes) out[level] = {bytes, int(c.a >> 14 & 4095) + 1};
    }
  return out;
}

double frequency() {
  if (const double kilohertz =
          std::atof(firstLine("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").c_str());
      kilohertz > 0)
    return kilohertz * 1e3;
  if (const unsigned megahertz = Cpuid(0x16).b & 0xffff) return megahertz * 1e6;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("cpu MHz", 0) == 0)
      if (const double megahertz = std::atof(line.c_str() + line.find(':') + 1); megahertz > 0)
        return megahertz * 1e6;
  return 3e9;
}

std::string fromLlvm(char* text) {
  const std::string out = text;
  LLVMDisposeMessage(text);
  return out;
}

bool isAmd() { return Cpuid(0).b == 0x68747541; }  // "Auth"enticAMD
int family() {
  const unsigned a = Cpuid(1).a, base = a >> 8 & 15;
  return base == 15 ? int(base + (a >> 20 & 255)) : int(base);
}

void vectors(Target& t) {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512dq");
  t.vectorBytes = avx512 ? 64 : avx2 ? 32 : 16;
  t.vectorRegisters = avx512 ? 32 : 16;
  t.fma = avx2;
  t.maskedMoves = avx512;
  const bool halfRate = avx512 && isAmd() && family() == 0x19;  // 512-bit operations in two passes
  t.fmaPerCycle = halfRate ? 1 : 2;
  t.slotsPerCycle = halfRate ? 2 : avx512 ? 2 : 3;
  t.loadsPerCycle = halfRate ? 1 : 2;
  t.reorderWindow = isAmd() && family() >= 0x19 ? 320 : avx512 ? 512 : 224;
}

}  // namespace

Target hostTarget() {
  Target t;
  t.kind = "cpu";
  t.printer = "llvm";
  t.triple = fromLlvm(LLVMGetDefaultTargetTriple());
  t.cpu = fromLlvm(LLVMGetHostCPUName());
  t.features = fromLlvm(LLVMGetHostCPUFeatures());
  t.name = "cpu:" + t.cpu;
  t.cores = usableCores();
  t.hertz = frequency();
  vectors(t);
  const std::vector<Cache> c = caches();
  const double h = t.hertz;
  t.levels = {{"reg", int64_t{t.vectorBytes} * t.vectorRegisters, 0, 0},
              {"l1", c[1].bytes ? c[1].bytes : 32 << 10, t.loadsPerCycle * t.vectorBytes * h, 0},
              {"l2", c[2].bytes ? c[2].bytes / (c[2].sharers > 2 ? c[2].sharers : 1) : 256 << 10,
               32 * h, 0}};
  if (c[3].bytes)
    t.levels.push_back({"l3", c[3].bytes, 16 * h, 16 * h * std::min(t.cores, c[3].sharers)});
  t.levels.push_back({"main", 0, kMainBytesPerCore,
                      kMainBytesPerCore * std::min(t.cores, kCoresThatSaturateMain)});
  return t;
}

}  // namespace tektite
