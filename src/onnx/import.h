#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"

namespace tektite {

using NamePairs = std::vector<std::pair<std::string, std::string>>;

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
  std::vector<Port> inputs, outputs;  ///< outputs of a model in parts: as it declares them
  std::vector<Dim> dims;
  NamePairs cut, fuse;  ///< what the nodes' metadata asks of fusion (onnx/metadata.h)
};

struct ImportOptions {
  std::map<std::string, int64_t> dims;  ///< named dims that are numbers from the start
  std::map<std::string, std::vector<int64_t>>
      shapes;  ///< of inputs, where they are known: they hold against what the model names alike
};

// ---- A model in parts. Where shapes or control flow depend on data, a part of the model ends, and the rest is imported when a run has
// told what was asked. What goes from part to part is carried: such values have numbers, unique within one run of the model.

struct ImportState;

/// What of a model is still to be imported: all of it, what follows a part, or a loop's body.
struct Rest {
  int64_t number = 0;       ///< unique in the process
  std::vector<int> shaped;  ///< carried values whose types it has to be told
  std::vector<int> valued;  ///< and whose elements, too
  std::vector<int> reads;   ///< all carried values that anything from here on reads
  std::shared_ptr<const ImportState> state;
};
using RestPtr = std::shared_ptr<const Rest>;

/// A loop between two parts; the host runs it. Numbers are of carried values.
struct LoopPart {
  std::string origin;
  int trips = -1, condition = -1;  ///< -1: no limit; true
  bool counted = true;  ///< the body is given iteration and condition, and says the condition first
  std::vector<int> states, scanned;
  std::vector<int> results;   ///< last states, then what steps gave, stacked
  std::vector<bool> reverse;  ///< of scanned, then of stacked results
  RestPtr body;
  std::vector<int> bodyInputs;
  /// Of each stacked result the type of a slice, as the model has it: 0 for an extent that it doesn't say.
  std::vector<std::optional<TensorType>> declared;
};

/// The nodes from a Rest on, up to the first that asks for what only a run can tell.
struct Part {
  Graph graph;                       ///< static
  std::vector<int> inputs, outputs;  ///< the carried values that its inputs and outputs are
  std::optional<LoopPart> loop;      ///< run after the graph, before the rest
  RestPtr rest;                      ///< null: this part ends the model, or the body
  std::vector<int> results;          ///< then: its results
  std::string asks;                  ///< of whom the rest wants to know what: for people
};

/// All of a model. Carried values 0.. are its inputs. UserError: as importOnnx.
RestPtr openOnnx(const std::string& path, ModelInfo* info = nullptr);
/// The next part, for these types of `shaped` and elements of `valued`.
Part importPart(const Rest&, const std::map<int, TensorType>& types,
                const std::map<int, std::shared_ptr<const ConstData>>& values);

/// The model as one graph: every node through its operator's definition, with the node's name (or <operator>_<index>) as origin;
/// named dims stay symbolic; initialisers are constants that point into the mapped file; shape arithmetic is folded.
/// UserError `path: node 'name' (Operator): what was found, what was expected`, also where the model is one in parts.
Graph importOnnx(const std::string& path, const ImportOptions& options = {},
                 ModelInfo* info = nullptr);

/// A model as one graph, where it is one for all values of its dims, else in parts.
struct OpenedModel {
  std::optional<Graph> graph;
  RestPtr parts;  ///< where there is no graph
  ModelInfo info;
};
/// UserError: what isn't a model, and what is wrong in its first part whatever its dims are.
OpenedModel openModel(const std::string& path);

}  // namespace tektite
