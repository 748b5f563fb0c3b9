#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace tektite {

/// What a model says of itself, beside its graph.
struct ModelInfo {
  struct Port {
    std::string name;
    TensorType type;
  };
  struct Dim {
    std::string name;
    bool named;  ///< by the model; else the name is made up: <input>_dim<axis>
  };
  std::string producer;
  int opset = 0;
  std::vector<Port> inputs, outputs;
  std::vector<Dim> dims;
};

struct ImportOptions {
  std::map<std::string, int64_t> dims;  ///< named dims that are numbers from the start
  std::map<std::string, std::vector<int64_t>>
      shapes;  ///< of inputs, where they are known: they hold against what the model names alike
  std::map<std::string, TensorAttribute>
      fixed;  ///< inputs that are constants (where a shape depends on their value)
};

/// The model as a graph: every node through its operator's definition, with the node's name (or <operator>_<index>) as origin;
/// named dims stay symbolic; initialisers are constants that point into the mapped file; shape arithmetic is folded.
/// UserError `path: node 'name' (Operator): what was found, what was expected`.
Graph importOnnx(const std::string& path, const ImportOptions& options = {},
                 ModelInfo* info = nullptr);

}  // namespace tektite
