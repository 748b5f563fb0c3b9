#pragma once

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace tektite {

/// Puts the nodes of every graph and function behind those that they read, in the file's order otherwise: some writers append nodes
/// that earlier ones read. Nodes without a name that move keep the name that their place in the file gives them (nodeName).
/// UserError that names a cycle.
void orderNodes(onnx::ModelProto&);

}  // namespace tektite
