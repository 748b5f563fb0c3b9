#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/compiler.h"
#include "emit/llvm_text.h"

namespace tektite {

/// A buffer's elements for a test, 64-byte aligned, between guard bytes that must not change.
class TestBuffer {
 public:
  TestBuffer() = default;
  TestBuffer(DType type, int64_t elements);
  TestBuffer(const std::vector<float>& values);
  void* data() { return bytes_.get() + 64; }
  int64_t elements() const { return elements_; }
  double at(int64_t i) const;
  void set(int64_t i, double value);
  std::vector<float> floats() const;
  bool guardsStand() const;

 private:
  struct Free {
    void operator()(char* p) const { ::operator delete[](p, std::align_val_t(64)); }
  };
  DType type_ = DType::F32;
  int64_t elements_ = 0;
  std::unique_ptr<char[], Free> bytes_;
};
using TestBuffers = std::map<std::string, TestBuffer>;

/// A kernel of tests/kernel/<file>.
KernelModule kernelFile(const std::string& file);
/// The CPU targets that this machine can run, by name.
std::vector<Target> runnableTargets();
/// Emits, compiles and runs the first kernel, with a team of `threads`; buffers by the parameters' names.
/// The dims' ranges become those of any such sizes, or exactly the sizes.
void runKernel(KernelModule module, const std::map<std::string, int64_t>& dims,
               TestBuffers& buffers, const Target& target, int threads,
               FastMath mode = FastMath::Contract, bool exactDims = false);
/// Numbers in [-low, low), the same for a seed.
std::vector<float> noise(int64_t n, uint32_t seed, float size = 1);

}  // namespace tektite
