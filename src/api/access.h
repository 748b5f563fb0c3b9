#pragma once
#include <tektite/tektite.h>

#include "ir/builder.h"
#include "onnx/import.h"

namespace tektite {
inline namespace api {

struct Model::State {
  Graph graph;
  RestPtr parts;   ///< a model in parts: it has no graph
  ModelInfo info;  ///< of one in parts; else only what it asks of fusion
};

struct NetworkState {
  Builder builder;
  std::vector<Value> outputs;
  std::vector<std::string> outputNames;
};

/// What stands behind the public handles.
struct Access {
  static const Graph& graph(const Model& model) { return model.state_->graph; }
  static Model model(Graph graph, ModelInfo info = {}) {
    Model model;
    model.state_ =
        std::make_shared<Model::State>(Model::State{std::move(graph), nullptr, std::move(info)});
    return model;
  }
  static std::shared_ptr<NetworkState> network(const Tensor&);  ///< UserError: an empty tensor
  static Value value(const Tensor&);
  static Tensor tensor(std::shared_ptr<NetworkState>, Value);
};

}  // namespace api
}  // namespace tektite
