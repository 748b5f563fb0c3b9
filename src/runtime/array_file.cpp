#include <cstring>

#include "onnx/tensor_file.h"
#include "runtime/array.h"

namespace tektite {

Array readArray(const std::string& path) {
  const TensorAttribute tensor = readTensor(path);
  Array array(tensor.type.dtype, tensor.type.extents());
  if (tensor.data->bytes) std::memcpy(array.data(), tensor.data->data, tensor.data->bytes);
  return array;
}

void writeNpy(const std::string& path, const Array& array) {
  writeNpy(path, array.type, array.shape, array.data());
}

}  // namespace tektite
