#pragma once
#include <map>
#include <string>
#include <vector>

#include "onnx/import.h"

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace tektite {

/// What a node's metadata asks of fusion: `tektite.cut` names nodes (or `*`) that it shall not share a kernel with, `tektite.fuse` those that it
/// shall; several with commas between them. UserError: an empty name.
void readFences(const onnx::NodeProto&, const std::string& name, NamePairs& cut, NamePairs& fuse);

}  // namespace tektite
