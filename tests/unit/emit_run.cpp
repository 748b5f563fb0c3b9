#include "emit_run.h"

#include <gtest/gtest.h>

#include <bit>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <sstream>
#include <thread>

#include "support/check.h"

namespace tektite {
namespace {

/// All threads of a team wait for each other, asleep: tests share the machine.
struct Team {
  int size, waiting = 0, round = 0;
  std::mutex lock;
  std::condition_variable changed;
  void wait() {
    std::unique_lock held(lock);
    const int mine = round;
    if (++waiting == size) {
      waiting = 0;
      round++;
      changed.notify_all();
    }
    changed.wait(held, [&] { return round != mine; });
  }
};

/// Each thread has its share of every list, whoever is first.
struct EqualDealer : TileDealer {
  Team* team;
  int64_t thread;
  bool dealt = false;
  EqualDealer(Team* team, int64_t thread)
      : TileDealer{[](TileDealer* d, int64_t total, int64_t* first) {
                     return static_cast<EqualDealer*>(d)->next(total, *first);
                   },
                   [](TileDealer* d) { static_cast<EqualDealer*>(d)->team->wait(); }},
        team(team),
        thread(thread) {}
  int64_t next(int64_t total, int64_t& first) {
    dealt = !dealt;
    first = total * thread / team->size;
    const int64_t count = dealt ? total * (thread + 1) / team->size - first : 0;
    if (count == 0) dealt = false;
    return count;
  }
};

}  // namespace

TestBuffer::TestBuffer(DType type, int64_t elements) : type_(type), elements_(elements) {
  const int64_t size = elements * bytes(type) + 128;
  bytes_.reset(static_cast<char*>(::operator new[](size, std::align_val_t(64))));
  std::memset(bytes_.get(), 0x5a, size);
}
TestBuffer::TestBuffer(const std::vector<float>& values) : TestBuffer(DType::F32, values.size()) {
  if (!values.empty()) std::memcpy(data(), values.data(), values.size() * 4);
}
double TestBuffer::at(int64_t i) const {
  const char* data = bytes_.get() + 64;
  return isFloat(type_) ? loadFloat(type_, data, i)
                        : static_cast<double>(loadInteger(type_, data, i));
}
void TestBuffer::set(int64_t i, double value) {
  if (isFloat(type_))
    storeFloat(type_, data(), i, value);
  else
    storeInteger(type_, data(), i, static_cast<int64_t>(value));
}
std::vector<float> TestBuffer::floats() const {
  std::vector<float> out;
  for (int64_t i = 0; i < elements_; i++) out.push_back(static_cast<float>(at(i)));
  return out;
}
bool TestBuffer::guardsStand() const {
  const int64_t size = elements_ * bytes(type_);
  for (int64_t i = 0; i < 64; i++)
    if (bytes_[i] != 0x5a || bytes_[64 + size + i] != 0x5a) return false;
  return true;
}

KernelModule kernelFile(const std::string& file) {
  std::ifstream in(fmt::format("{}/kernel/{}", TEKTITE_TESTS, file));
  TEKTITE_CHECK(in.good(), "no file {}", file);
  std::stringstream text;
  text << in.rdbuf();
  return parseKernels(text.str(), file);
}

std::vector<Target> runnableTargets() {
  std::vector<Target> out{findTarget("cpu:x86-64")};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    out.push_back(findTarget("cpu:avx2"));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    out.push_back(findTarget("cpu:avx512"));
  if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl"))
    out.push_back(findTarget("cpu:avx512-vnni"));
  if (__builtin_cpu_supports("avxvnni")) out.push_back(findTarget("cpu:avx2-vnni"));
  return out;
}

void runKernel(KernelModule module, const std::map<std::string, int64_t>& dims,
               TestBuffers& buffers, const Target& target, int threads, FastMath mode,
               bool exactDims) {
  Kernel& kernel = module.kernels.at(0);
  std::vector<int64_t> sizes;
  int64_t wide = 15;
  for (const auto& [name, size] : dims) wide = std::max(wide, size);
  for (Dim& d : kernel.dims) {
    sizes.push_back(dims.at(d.name));
    d = {d.name, exactDims ? sizes.back() : 0,
         exactDims ? sizes.back()
                   : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wide)))};
  }
  const Artifact artifact = emitLlvm(module, kernel, target, mode);
  static std::map<std::string, std::unique_ptr<LoadedCode>> compiled;
  auto& code = compiled[target.name + artifact.text];
  if (!code) {
    code = newLoadedCode();
    code->add(compileObject(artifact.text, target));
  }
  const auto run = reinterpret_cast<KernelFunction>(code->find(artifact.symbol));
  ASSERT_NE(run, nullptr) << artifact.text;

  std::vector<void*> pointers;
  std::vector<TestBuffer> own;
  for (const Param& p : kernel.params) pointers.push_back(buffers.at(p.buffer.name).data());
  for (const int64_t size : artifact.needs.mainAllocs)
    pointers.push_back(own.emplace_back(DType::U8, size).data());
  std::vector<int32_t> counters(artifact.needs.counters);
  if (!counters.empty()) pointers.push_back(counters.data());
  Team team{threads};
  std::vector<std::thread> running;
  for (int t = 0; t < threads; t++)
    running.emplace_back([&, t] {
      TestBuffer scratch(DType::U8, artifact.needs.scratchBytes);
      EqualDealer dealer(&team, t);
      run(pointers.data(), sizes.data(), scratch.data(), &dealer);
      EXPECT_TRUE(scratch.guardsStand());
    });
  for (std::thread& t : running) t.join();
  for (auto& [name, b] : buffers) EXPECT_TRUE(b.guardsStand()) << name;
  for (const TestBuffer& b : own) EXPECT_TRUE(b.guardsStand());
  for (const int32_t c : counters) EXPECT_EQ(c, 0);
}

std::vector<float> noise(int64_t n, uint32_t seed, float size) {
  std::vector<float> out;
  for (uint32_t x = seed * 2654435761u + 1; n-- > 0;) {
    x = x * 1664525u + 1013904223u;
    out.push_back((static_cast<float>(x >> 8) / 8388608.0f - 1) * size);
  }
  return out;
}

}  // namespace tektite
