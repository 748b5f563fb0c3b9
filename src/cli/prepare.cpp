#include "cli/cli.h"
#include "runtime/chain.h"
#include "runtime/dims.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

constexpr int64_t kIntegerLimit =
    2;  // random integers below it are good as indices, masks and kinds alike

std::vector<Array> inputsFor(const Options& options, const std::vector<TensorType>& types) {
  if (options.given("--inputs")) return readArrays(options.text("--inputs"), "input", types.size());
  std::vector<Array> inputs;
  for (const TensorType& type : types) {
    const uint64_t seed = static_cast<uint64_t>(options.integer("--seed")) + inputs.size();
    inputs.push_back(randomArray(type.dtype, type.extents(), seed, kIntegerLimit));
  }
  return inputs;
}

std::vector<TensorType> inputTypes(const Graph& model, const std::map<std::string, int64_t>& dims) {
  const Graph bound = bindDims(model, completeDims(model, dims));
  std::vector<TensorType> types;
  for (Value v : bound.inputs()) types.push_back(bound.type(v));
  return types;
}

/// With 1 for every dim that isn't given.
std::vector<TensorType> inputTypes(const ModelInfo& info,
                                   const std::map<std::string, int64_t>& dims) {
  std::vector<TensorType> types;
  for (const ModelInfo::Port& port : info.inputs) {
    types.push_back(port.type);
    for (Expr& e : types.back().shape)
      if (const Var* name = e.as<Var>()) e = dims.count(name->name) ? dims.at(name->name) : 1;
  }
  return types;
}

void checkNames(const std::map<std::string, int64_t>& given, const ModelInfo& info) {
  for (const auto& [name, value] : given) {
    if (std::none_of(info.dims.begin(), info.dims.end(),
                     [&, &name = name](const ModelInfo::Dim& d) { return d.name == name; })) {
      std::string names;
      for (const ModelInfo::Dim& dim : info.dims) names += (names.empty() ? "" : ", ") + dim.name;
      userError("--dim: '{}' found, expected {}", name,
                names.empty() ? "none: the model has no named dim" : "one of " + names);
    }
  }
}

/// A model that is one graph; false where that graph doesn't make sense for the dims that the inputs have.
bool prepareWhole(Prepared& p, const Options& options, const std::map<std::string, int64_t>& given,
                  bool mayFail) {
  try {
    p.inputs = inputsFor(options, inputTypes(p.model, given));
    p.graph = prepareGraph(p.model, dimsOf(p.model, p.inputs, given), p.options.passes);
    return true;
  } catch (const UserError&) {
    if (!mayFail) throw;
    return false;
  }
}

}  // namespace

Prepared prepareModel(const Options& options, Progress& progress,
                      const decltype(PassOptions::observe)& observe) {
  Prepared p;
  p.options = compileOptions(options, progress);
  if (observe) {
    p.options.passes.observe = [first = p.options.passes.observe, observe](
                                   std::string_view pass, const Graph& after, bool changed,
                                   double seconds) {
      if (first) first(pass, after, changed, seconds);
      observe(pass, after, changed, seconds);
    };
  }
  const std::map<std::string, int64_t> given = givenDims(options);
  const std::string path = options.text("MODEL");
  if (!path.ends_with(".onnx") || options.given("--builtin")) {
    p.model = loadModel(options);
    prepareWhole(p, options, given, false);
    return p;
  }
  OpenedModel opened = openModel(path);
  checkNames(given, opened.info);
  p.options.fusion.modelCut = opened.info.cut;
  p.options.fusion.modelForce = opened.info.fuse;
  for (const ModelInfo::Port& port : opened.info.outputs) p.outputNames.push_back(port.name);
  if (opened.graph) {
    p.model = std::move(*opened.graph);
    if (prepareWhole(p, options, given, !opened.info.dims.empty())) return p;
    opened.parts = openOnnx(path, &opened.info);
  }
  p.parts = opened.parts;
  p.inputs = inputsFor(options, inputTypes(opened.info, given));
  return p;
}

std::vector<Prepared> partsOf(Prepared p) {
  std::vector<Prepared> parts;
  if (!p.parts) {
    parts.push_back(std::move(p));
    return parts;
  }
  Team team(p.options.threads);
  CompileOptions here = p.options;  // parts run on this machine to learn what the next ones get
  here.target = hostTarget();
  Chain chain(p.parts, here, team);
  chain.observe = [&](const Chain::Stage& stage, const std::vector<Carried>& inputs) {
    if (!stage.program || stage.times > 1) return;
    Prepared part;
    part.model = stage.part.graph;
    part.graph = stage.graph;
    part.options = p.options;
    part.ends = stage.part.asks;
    for (const Carried& c : inputs) part.inputs.push_back(arrayFrom(c));
    parts.push_back(std::move(part));
  };
  std::vector<Carried> inputs;
  for (const Array& input : p.inputs) inputs.push_back(carriedFrom(input));
  chain.run(inputs);
  return parts;
}

void printPart(const std::vector<Prepared>& parts, size_t i) {
  if (parts.size() == 1) return;
  fmt::print("{}part {} of {}{}\n\n", i ? "\n" : "", i + 1, parts.size(),
             parts[i].ends.empty() ? "" : ", ends where a run has to tell: " + parts[i].ends);
}

}  // namespace tektite::cli
