#pragma once
#include <memory>
#include <string>

#include "ir/graph.h"
#include "ops/op.h"

namespace onnx {
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace tektite {

/// A file in memory, read-only, unmapped with the last user. UserError where it can't be read.
std::shared_ptr<const ConstData> mapFile(const std::string& path);

/// A model file: its protobuf, in which every raw tensor over 4 KiB is left out and found in the mapping instead.
class Model {
 public:
  /// UserError: unreadable, truncated, not a model.
  explicit Model(const std::string& path);
  ~Model();
  const onnx::ModelProto& proto() const { return *proto_; }
  const std::string& path() const { return path_; }
  /// The tensor's type and data: in the mapping, in an external file of the model's folder, or copied from the protobuf's fields.
  TensorAttribute tensor(const onnx::TensorProto&) const;

 private:
  std::string path_;
  std::shared_ptr<const ConstData> file_;
  std::unique_ptr<onnx::ModelProto> proto_;
};

/// A tensor all of whose data is in its protobuf.
TensorAttribute inlineTensor(const onnx::TensorProto&);

}  // namespace tektite
