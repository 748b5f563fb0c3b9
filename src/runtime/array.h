#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/type.h"

namespace tektite {

/// Uninitialised memory, aligned for any vector and for huge pages where it is large. Moves, doesn't copy.
class Memory {
 public:
  Memory() = default;
  explicit Memory(size_t bytes);
  char* data() const { return data_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::unique_ptr<char[], Free> data_;
  size_t bytes_ = 0;
};

/// A tensor on the host: row-major, bytes(type) an element.
struct Array {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  Memory memory;

  Array() = default;
  Array(DType type, std::vector<int64_t> shape);  ///< uninitialised
  int64_t elements() const;
  void* data() const { return memory.data(); }
};
int64_t elementsOf(const std::vector<int64_t>& shape);
std::string shapeText(DType, const std::vector<int64_t>& shape);  ///< f32[1x3x224x224]

/// Reads `.npy`, or `.pb` with an ONNX TensorProto. UserError names the file.
Array readArray(const std::string& path);
void writeNpy(const std::string& path, const Array&);
/// Floats normal with deviation 0.5, integers in [0, limit), bool either: from this seed.
Array randomArray(DType, std::vector<int64_t> shape, uint64_t seed, int64_t limit);

}  // namespace tektite
