#pragma once
#include <string>

#include "ops/op.h"

namespace tektite {

/// A tensor from a file: `.npy`, else ONNX's TensorProto (as in its test data). The result has a static shape, row-major.
/// UserError: unreadable, another format, an element type that isn't supported.
TensorAttribute readTensor(const std::string& path);
/// Writes `.npy`; bf16 as f32, 4-bit integers as 8-bit ones, which numpy has. UserError: not writable.
void writeNpy(const std::string& path, DType type, const std::vector<int64_t>& shape,
              const void* data);

}  // namespace tektite
