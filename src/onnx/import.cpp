#include "onnx/import.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "ir/expr.h"
#include "onnx/model.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLargestDim =
    1'000'000'000;  // slices "to the end" are written with numbers from here on

/// The values that names mean. Initialisers become constants where they are first read.
struct Scope {
  std::map<std::string, Value> values;
  std::map<std::string, const onnx::TensorProto*> initializers;
  std::map<std::string, const onnx::AttributeProto*>
      attributes;  ///< of a function's call, for references
};

using Names = std::set<std::string>;

/// Adds the names that the graph reads from around it.
void readFromOutside(const onnx::GraphProto& g, Names& out) {
  Names own;
  for (const auto& i : g.input()) own.insert(i.name());
  for (const auto& i : g.initializer()) own.insert(i.name());
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.count(name)) out.insert(name);
  };
  for (const auto& n : g.node()) {
    for (const auto& i : n.input()) read(i);
    for (const auto& a : n.attribute()) {
      if (!a.has_g()) continue;
      Names inner;
      readFromOutside(a.g(), inner);
      for (const auto& i : inner) read(i);
    }
    for (const auto& o : n.output()) own.insert(o);
  }
  for (const auto& o : g.output()) read(o.name());
}

/// A name that graph text can say and that means nothing else there.
std::string dimName(const std::string& from) {
  std::string out;
  for (const char c : from)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "_" + out;
  const bool coordinate =
      out[0] == 'd' && out.find_first_not_of("0123456789", 1) == std::string::npos;
  if (coordinate || out == "x" || opFromName(out) || dtypeFromName(out)) out += "_";
  return out;
}

class Importer {
 public:
  Importer(const Model& model, const ImportOptions& options, ModelInfo& info)
      : model_(model), options_(options), info_(info) {}

  Graph run() {
    const onnx::ModelProto& m = model_.proto();
    for (const auto& o : m.opset_import()) {
      int64_t& version = opsets_[o.domain() == "ai.onnx" ? "" : o.domain()];
      version = std::max(version, o.version());
    }
    for (const auto& f : m.functions()) functions_[{f.domain(), f.name()}] = &f;
    info_.producer =
        m.producer_name() + (m.producer_version().empty() ? "" : " " + m.producer_version());
    info_.opset = static_cast<int>(opsets_[""]);
    Builder b;
    Scope scope;
    for (const auto& t : m.graph().initializer()) scope.initializers[t.name()] = &t;
    for (const auto& i : m.graph().input()) input(b, scope, i);
    nodes(b, scope, m.graph().node(), "");
    for (const auto& o : m.graph().output()) {
      const Value v = lookup(b, scope, o.name());
      if (!v) userError("output '{}' is not defined by any node", o.name());
      b.graph.outputs.push_back(v);
      b.graph.outputNames.push_back(o.name());
      info_.outputs.push_back({o.name(), b.type(v)});
    }
    return std::move(b.graph);
  }

 private:
  void input(Builder& b, Scope& scope, const onnx::ValueInfoProto& i) {
    if (scope.initializers.count(i.name())) return;
    if (const auto fixed = options_.fixed.find(i.name()); fixed != options_.fixed.end()) {
      scope.values[i.name()] = b.constant(fixed->second.type, fixed->second.data, i.name());
      return;
    }
    if (!i.type().has_tensor_type()) userError("input '{}' is not a tensor", i.name());
    const TensorType type = inputType(b, i);
    scope.values[i.name()] = b.input(i.name(), type);
    info_.inputs.push_back({i.name(), type});
  }

  TensorType inputType(Builder& b, const onnx::ValueInfoProto& i) {
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
      if (d.has_dim_value() && d.dim_value() >= 0) {
        type.shape.push_back(d.dim_value());
      } else {
        type.shape.push_back(
            dim(b, named ? d.dim_param() : fmt::format("{}_dim{}", i.name(), axis), named));
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

  Expr dim(Builder& b, const std::string& original, bool named) {
    const std::string name = dimName(original);
    if (std::none_of(info_.dims.begin(), info_.dims.end(),
                     [&](const ModelInfo::Dim& d) { return d.name == name; }))
      info_.dims.push_back({name, named});
    for (const std::string& key : {name, original})
      if (const auto at = options_.dims.find(key); at != options_.dims.end()) return at->second;
    b.graph.dims.try_emplace(name, DimRange{0, kLargestDim});
    return var(name);
  }

  Value lookup(Builder& b, Scope& scope, const std::string& name) {
    if (const auto at = scope.values.find(name); at != scope.values.end()) return at->second;
    if (const auto at = scope.initializers.find(name); at != scope.initializers.end()) {
      const TensorAttribute t = model_.tensor(*at->second);
      return scope.values[name] = b.constant(t.type, t.data, name);
    }
    return {};
  }

  void nodes(Builder& b, Scope& scope,
             const google::protobuf::RepeatedPtrField<onnx::NodeProto>& list,
             const std::string& prefix) {
    int index = 0;
    for (const auto& n : list) {
      const std::string name =
          prefix + (n.name().empty() ? fmt::format("{}_{}", n.op_type(), index) : n.name());
      index++;
      try {
        node(b, scope, n, name);
      } catch (const UserError& e) {
        if (placed_) throw;  // an inner node said it
        placed_ = true;
        userError("node '{}' ({}): {}", name, n.op_type(), e.what());
      }
    }
  }

  void node(Builder& b, Scope& scope, const onnx::NodeProto& n, const std::string& name) {
    OpCall call{n.op_type()};
    b.origin = name;
    for (const auto& i : n.input()) {
      call.in.push_back(i.empty() ? Value{} : lookup(b, scope, i));
      if (!i.empty() && !call.in.back())
        userError("input '{}' is not defined by any node before", i);
    }
    call.outputs = 0;
    for (int i = 0; i < n.output_size(); i++)
      if (!n.output(i).empty()) call.outputs = i + 1;
    const std::string domain = n.domain() == "ai.onnx" ? "" : n.domain();
    const auto function = functions_.find({domain, n.op_type()});
    std::vector<Value> results;
    if (function != functions_.end()) {
      results = inlined(b, scope, *function->second, n, call.in, name);
    } else {
      call.opset = static_cast<int>(opsets_.count(domain) ? opsets_.at(domain) : 1);
      for (const auto& a : n.attribute()) attribute(b, scope, call, a, name);
      results = buildOp(b, call, domain);
    }
    for (int i = 0; i < call.outputs; i++)
      if (!n.output(i).empty()) scope.values[n.output(i)] = results[static_cast<size_t>(i)];
  }

  std::vector<Value> inlined(Builder& b, const Scope& from, const onnx::FunctionProto& f,
                             const onnx::NodeProto& call, const std::vector<Value>& in,
                             const std::string& name) {
    if (++depth_ > 64) userError("functions call each other without end");
    Scope scope;
    for (int i = 0; i < f.input_size(); i++)
      scope.values[f.input(i)] =
          static_cast<size_t>(i) < in.size() ? in[static_cast<size_t>(i)] : Value{};
    for (const auto& a : call.attribute()) {
      const auto referred = from.attributes.find(a.ref_attr_name());
      scope.attributes[a.name()] =
          a.ref_attr_name().empty() || referred == from.attributes.end() ? &a : referred->second;
    }
    const auto opsets = opsets_;
    for (const auto& o : f.opset_import())
      opsets_[o.domain() == "ai.onnx" ? "" : o.domain()] = o.version();
    nodes(b, scope, f.node(), name + "/");
    opsets_ = opsets;
    std::vector<Value> out;
    for (const auto& o : f.output()) out.push_back(lookup(b, scope, o));
    depth_--;
    return out;
  }

  void attribute(Builder& b, Scope& scope, OpCall& call, const onnx::AttributeProto& given,
                 const std::string& name) {
    const onnx::AttributeProto* a = &given;
    if (!given.ref_attr_name().empty()) {
      const auto at = scope.attributes.find(given.ref_attr_name());
      if (at == scope.attributes.end()) return;  // the caller left it out: the default holds
      a = at->second;
    }
    Attribute& out = call.attributes[given.name()];
    using A = onnx::AttributeProto;
    switch (a->type()) {
      case A::INT: out = static_cast<int64_t>(a->i()); break;
      case A::FLOAT: out = static_cast<double>(a->f()); break;
      case A::STRING: out = a->s(); break;
      case A::INTS: out = std::vector<int64_t>(a->ints().begin(), a->ints().end()); break;
      case A::FLOATS: out = std::vector<double>(a->floats().begin(), a->floats().end()); break;
      case A::STRINGS:
        out = std::vector<std::string>(a->strings().begin(), a->strings().end());
        break;
      case A::TENSOR: out = model_.tensor(a->t()); break;
      case A::GRAPH: out = body(b, scope, a->g(), name); break;
      default: userError("attribute '{}' is of a kind that is not supported", given.name());
    }
  }

  /// The body refers to the model and to this importer: it is built while the node is imported.
  Body body(Builder& b, Scope& scope, const onnx::GraphProto& g, const std::string& name) {
    Names outside;
    readFromOutside(g, outside);
    Body out;
    std::vector<std::string> captured;
    for (const std::string& o : outside)
      if (const Value v = lookup(b, scope, o)) {
        captured.push_back(o);
        out.captured.push_back(v);
      }
    for (const auto& i : g.input()) {
      const auto& tensor = i.type().tensor_type();
      out.inputs.push_back(i.name());
      out.inputTypes.push_back(
          {tensor.elem_type() ? dtypeOfNumber(tensor.elem_type()) : DType::Bool, {}});
    }
    out.build = [this, &g, &scope, captured, name](Builder& into, const std::vector<Value>& inputs,
                                                   const std::vector<Value>& around) {
      Scope inner;
      inner.attributes = scope.attributes;
      for (size_t i = 0; i < captured.size(); i++) inner.values[captured[i]] = around.at(i);
      for (const auto& t : g.initializer()) inner.initializers[t.name()] = &t;
      for (int i = 0; i < g.input_size(); i++)
        inner.values[g.input(i).name()] = inputs.at(static_cast<size_t>(i));
      nodes(into, inner, g.node(), name + "/");
      into.origin = name;
      std::vector<Value> results;
      for (const auto& o : g.output()) {
        results.push_back(lookup(into, inner, o.name()));
        if (!results.back()) userError("output '{}' of its graph is not defined", o.name());
      }
      return results;
    };
    return out;
  }

  const Model& model_;
  const ImportOptions& options_;
  ModelInfo& info_;
  std::map<std::string, int64_t> opsets_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  int depth_ = 0;
  bool placed_ = false;
};

}  // namespace

Graph importOnnx(const std::string& path, const ImportOptions& options, ModelInfo* info) {
  const Model model(path);
  ModelInfo own;
  try {
    return Importer(model, options, info ? *info : own).run();
  } catch (const UserError& e) {
    userError("{}: {}", path, e.what());
  }
}

}  // namespace tektite
