#include "onnx/import.h"

#include <algorithm>

#include "ir/expr.h"
#include "onnx/cut.h"
#include "onnx/metadata.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

Frame mainFrame(const Source& source, const std::vector<ModelInfo::Port>& inputs) {
  const onnx::GraphProto& g = source.model.proto().graph();
  Frame f{&g.node(), 0, "", std::make_shared<Scope>(), source.opsets, {}};
  for (const auto& t : g.initializer()) f.scope->initializers[t.name()] = &t;
  for (size_t i = 0; i < inputs.size(); i++)
    f.scope->held[inputs[i].name] = {nullptr, static_cast<int>(i), inputs[i].type, inputs[i].name};
  return f;
}

constexpr int64_t kLargestDim =
    1'000'000'000;  // slices "to the end" are written with numbers from here on

/// The types that a model declares: for whom there are no others, and for checking those that are given.
class Declared {
 public:
  Declared(const Source& source, const ImportOptions& options) : options_(options) {
    const onnx::GraphProto& g = source.model.proto().graph();
    Names initializers;
    for (const auto& t : g.initializer()) initializers.insert(t.name());
    for (const auto& i : g.input()) {
      if (initializers.count(i.name())) continue;
      if (!i.type().has_tensor_type()) userError("input '{}' is not a tensor", i.name());
      info.inputs.push_back({i.name(), inputType(i)});
    }
    const onnx::ModelProto& m = source.model.proto();
    info.producer =
        m.producer_name() + (m.producer_version().empty() ? "" : " " + m.producer_version());
    const auto opset = source.opsets.find("");
    info.opset = opset == source.opsets.end() ? 0 : static_cast<int>(opset->second);
    const Frame frame = mainFrame(source, {});
    for (int n = 0; n < m.graph().node_size(); n++)
      readFences(m.graph().node(n), nodeName(frame, n), info.cut, info.fuse);
  }

  ModelInfo info;
  std::map<std::string, DimRange> dims;  ///< those without a number

  /// The outputs, where the model has parts. What it doesn't say of a shape is a dim of its own.
  void outputs(const Source& source) {
    for (const auto& o : source.model.proto().graph().output()) {
      const auto& t = o.type().tensor_type();
      TensorType type{t.elem_type() ? dtypeOfNumber(t.elem_type()) : DType::F32, {}};
      for (int axis = 0; axis < t.shape().dim_size(); axis++) {
        const auto& d = t.shape().dim(axis);
        if (d.has_dim_value() && d.dim_value() >= 0)
          type.shape.emplace_back(d.dim_value());
        else
          type.shape.push_back(var(dimName(
              d.dim_param().empty() ? fmt::format("{}_dim{}", o.name(), axis) : d.dim_param())));
      }
      info.outputs.push_back({o.name(), type});
    }
  }

 private:
  TensorType inputType(const onnx::ValueInfoProto& i) {
    const auto& tensor = i.type().tensor_type();
    if (!tensor.has_shape()) userError("input '{}' has no shape", i.name());
    TensorType type{dtypeOfNumber(tensor.elem_type()), {}};
    if (const auto given = options_.shapes.find(i.name()); given != options_.shapes.end())
      return givenType(type.dtype, i, given->second);
    int axis = 0;
    for (const auto& d :
         tensor.shape().dim()) {  // some exporters write -1 or "?" for every dim they don't know
      const bool named = std::any_of(d.dim_param().begin(), d.dim_param().end(),
                                     [](unsigned char c) { return std::isalnum(c); });
      if (d.has_dim_value() && d.dim_value() < -1)
        userError(
            "input '{}': axis {} has extent {}, expected 0 or more, or -1 where it isn't known",
            i.name(), axis, d.dim_value());
      if (d.has_dim_value() && d.dim_value() >= 0) {
        type.shape.push_back(d.dim_value());
      } else {
        type.shape.push_back(
            dim(named ? d.dim_param() : fmt::format("{}_dim{}", i.name(), axis), named));
      }
      axis++;
    }
    return type;
  }

  static TensorType givenType(DType dtype, const onnx::ValueInfoProto& i,
                              const std::vector<int64_t>& shape) {
    const auto& declared = i.type().tensor_type().shape();
    if (declared.dim_size() != static_cast<int>(shape.size()))
      userError("input '{}' is given rank {}, expected {}", i.name(), shape.size(),
                declared.dim_size());
    for (int axis = 0; axis < declared.dim_size(); axis++) {
      const int64_t d = declared.dim(axis).dim_value(), n = shape[static_cast<size_t>(axis)];
      if (declared.dim(axis).has_dim_value() && d >= 0 && d != n)
        userError("input '{}' is given {} on axis {}, expected {}", i.name(), n, axis, d);
    }
    return {dtype, {shape.begin(), shape.end()}};
  }

  Expr dim(const std::string& original, bool named) {
    const std::string name = dimName(original);
    if (std::none_of(info.dims.begin(), info.dims.end(),
                     [&](const ModelInfo::Dim& d) { return d.name == name; }))
      info.dims.push_back({name, named});
    for (const std::string& key : {name, original})
      if (const auto at = options_.dims.find(key); at != options_.dims.end()) return at->second;
    dims.try_emplace(name, DimRange{0, kLargestDim});
    return var(name);
  }

  const ImportOptions& options_;
};

/// Types of a run against those that the model declares. Shapes hold against what the model names alike.
void checkInputs(const std::vector<ModelInfo::Port>& inputs,
                 const std::map<int, TensorType>& types) {
  for (size_t i = 0; i < inputs.size(); i++) {
    const TensorType &expected = inputs[i].type, &found = types.at(static_cast<int>(i));
    bool fits = found.dtype == expected.dtype && found.rank() == expected.rank();
    for (int axis = 0; fits && axis < found.rank(); axis++) {
      const auto n = asInteger(expected.shape[static_cast<size_t>(axis)]);
      fits = !n || *n == found.extent(axis);
    }
    if (!fits)
      userError("input '{}': {} found, expected {}", inputs[i].name, toText(found),
                toText(expected));
  }
}

/// What no part of the model can be made of is said before the first of them runs.
void checkOperators(const Source& source, const Frame& f) {
  for (int i = 0; i < f.list->size(); i++) {
    const onnx::NodeProto& n = (*f.list)[i];
    const std::string domain = domainOf(n.domain());
    if (source.functions.count({domain, n.op_type()})) continue;
    const auto version = source.opsets.find(domain);
    try {
      needOp(domain, n.op_type(),
             version == source.opsets.end() ? 1 : static_cast<int>(version->second));
    } catch (const UserError& e) {
      userError("node '{}' ({}): {}", nodeName(f, i), n.op_type(), e.what());
    }
  }
}

}  // namespace

Graph importOnnx(const std::string& path, const ImportOptions& options, ModelInfo* info) {
  const auto source = std::make_shared<const Source>(path);
  try {
    Declared declared(*source, options);
    ModelInfo own, &out = info ? *info : own;
    out = declared.info;
    Importer importer(source, {mainFrame(*source, declared.info.inputs)});
    importer.b.graph.dims = declared.dims;
    Scope& scope = *importer.frames[0].scope;
    for (const auto& port : declared.info.inputs) importer.lookup(importer.b, scope, port.name);
    try {
      importer.run();
    } catch (const NeedValue& need) {
      importer.refuse(need.refusal());
    } catch (const HostLoop& loop) {
      importer.refuse(loop.what);
    }
    Graph& graph = importer.b.graph;
    for (const auto& o : source->model.proto().graph().output()) {
      const Value v = importer.lookup(importer.b, scope, o.name());
      if (!v) userError("output '{}' is not defined by any node", o.name());
      graph.outputs.push_back(v);
      graph.outputNames.push_back(o.name());
      out.outputs.push_back({o.name(), importer.b.type(v)});
    }
    return std::move(graph);
  } catch (const UserError& e) {
    userError("{}: {}", path, e.what());
  }
}

RestPtr openOnnx(const std::string& path, ModelInfo* info) {
  const auto source = std::make_shared<const Source>(path);
  try {
    Declared declared(*source, {});
    declared.outputs(*source);
    auto state = std::make_shared<ImportState>();
    state->source = source;
    state->inputs = declared.info.inputs;
    state->frames = {mainFrame(*source, declared.info.inputs)};
    checkOperators(*source, state->frames[0]);
    for (const auto& o : source->model.proto().graph().output()) state->results.push_back(o.name());
    state->nextCarried = static_cast<int>(declared.info.inputs.size());
    auto rest = newRest();
    for (int i = 0; i < state->nextCarried; i++) rest->shaped.push_back(i);
    rest->reads = rest->shaped;
    rest->state = std::move(state);
    if (info) *info = declared.info;
    return rest;
  } catch (const UserError& e) {
    userError("{}: {}", path, e.what());
  }
}

Part importPart(const Rest& rest, const std::map<int, TensorType>& types,
                const std::map<int, std::shared_ptr<const ConstData>>& values) {
  try {
    if (!rest.state->inputs.empty()) checkInputs(rest.state->inputs, types);
    return PartImporter(rest, types, values).run();
  } catch (const UserError& e) {
    userError("{}: {}", rest.state->source->model.path(), e.what());
  }
}

OpenedModel openModel(const std::string& path) {
  OpenedModel model;
  std::string refusal;
  try {
    model.graph = importOnnx(path, {}, &model.info);
    return model;
  } catch (const UserError& e) {
    refusal = e.what();
  }
  model.parts = openOnnx(path, &model.info);
  std::map<int, TensorType> types;
  for (const ModelInfo::Port& port : model.info.inputs) {
    TensorType& type = types[static_cast<int>(types.size())] = port.type;
    for (Expr& e : type.shape)
      if (!asInteger(e)) e = 1;
  }
  try {
    importPart(*model.parts, types, {});
  } catch (const UserError& e) {
    if (model.info.dims.empty() || e.what() == refusal) throw;  // other dims may fit
  }
  return model;
}

}  // namespace tektite
