#pragma once
#include "fusion/plan.h"
#include "lower/lower.h"
#include "runtime/array.h"

namespace tektite {

/// Packed constants, one after the other in one memory, made from their sources' row-major elements all at once on several threads.
class Packing {
 public:
  /// Answers where in the memory it will lie: bytes, a multiple of 64. `source` lives until make(); `origin` (if any) may forget its
  /// pages each time a job has read them.
  int64_t add(const PackedConstant&, const TensorType& sourceType, const void* source,
              std::shared_ptr<const ConstData> origin = nullptr);
  Memory make(int threads);

 private:
  struct Job {
    PackedConstant packed;
    TensorType sourceType;
    const void* source;
    std::shared_ptr<const ConstData> origin;
    int64_t offset;
  };
  std::vector<Job> jobs_;
  int64_t bytes_ = 0;
};
/// A constant's elements, row-major: where it lies, or (a splat) written to `made`.
const void* constantData(const Const&, const TensorType&, Memory& made);

}  // namespace tektite
