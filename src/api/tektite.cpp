#include <tektite/tektite.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "api/access.h"
#include "onnx/import.h"
#include "runtime/cache.h"
#include "runtime/report.h"
#include "runtime/specialize.h"
#include "support/check.h"
#include "support/parallel.h"

namespace tektite {
inline namespace api {

static_assert(static_cast<int>(Type::F64) == static_cast<int>(DType::F64) &&
                  static_cast<int>(Type::I32) == static_cast<int>(DType::I32),
              "Type is DType's public face");

namespace {

Shape shapeOf(const std::vector<Expr>& extents) {
  Shape shape;
  for (const Expr& extent : extents) {
    const std::optional<int64_t> number = asInteger(extent);
    shape.push_back(number ? Dim(*number) : Dim(toText(extent)));
  }
  return shape;
}

Port portOf(const std::string& name, const TensorType& type) {
  return {name, static_cast<Type>(type.dtype), shapeOf(type.shape)};
}

CompileOptions optionsOf(const Settings& settings) {
  CompileOptions options;
  options.target = settings.target == "host" ? hostTarget() : findTarget(settings.target);
  options.threads = settings.threads > 0 ? settings.threads : hardwareThreads();
  options.fusion.unfused = !settings.fuse;
  options.fusion.cut = settings.cut;
  options.fusion.force = settings.force;
  switch (settings.numerics) {
    case Settings::Numerics::Strict: options.fusion.numerics = Numerics::Strict; break;
    case Settings::Numerics::Ordered: options.fusion.numerics = Numerics::Ordered; break;
    case Settings::Numerics::Fast: options.fusion.numerics = Numerics::Fast; break;
  }
  options.passes.numerics = options.fusion.numerics;
  options.passes.verifyEach = false;
  if (settings.cache)
    options.cacheFolder =
        settings.cacheFolder.empty() ? defaultCacheFolder() : settings.cacheFolder;
  return options;
}

}  // namespace

// ---- Model

Model Model::load(const std::string& path) {
  if (!path.ends_with(".tk")) return Access::model(importOnnx(path));
  std::ifstream file(path);
  if (!file) userError("{}: cannot be read: {}", path, std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  Graph graph = parseGraph(text.str(), path);
  verify(graph);
  return Access::model(std::move(graph));
}

Model Model::parse(std::string_view graphText) {
  Graph graph = parseGraph(graphText, "text");
  verify(graph);
  return Access::model(std::move(graph));
}

std::vector<Port> Model::inputs() const {
  std::vector<Port> ports;
  for (Value v : state_->graph.inputs())
    ports.push_back(portOf(state_->graph.node(v).name, state_->graph.type(v)));
  return ports;
}

std::vector<Port> Model::outputs() const {
  const Graph& graph = state_->graph;
  std::vector<Port> ports;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ports.push_back(portOf(i < graph.outputNames.size() ? graph.outputNames[i] : "",
                           graph.type(graph.outputs[i])));
  }
  return ports;
}

std::string Model::text() const { return toText(state_->graph); }

// ---- Executable

struct Executable::State {
  State(const Graph& graph, const Settings& settings)
      : specializer(graph, optionsOf(settings), static_cast<size_t>(std::max(settings.kept, 1))),
        dims(settings.dims) {}

  Specializer specializer;
  std::map<std::string, int64_t> dims;
  std::vector<std::vector<int64_t>>
      shapes;  // of the run before, whose instance is still at the front
  Specializer::Instance* last = nullptr;

  Specializer::Instance& current() { return last ? *last : use(specializer.at(dims)); }
  Specializer::Instance& use(Specializer::Instance& instance) {
    last = &instance;
    return instance;
  }
  Specializer::Instance& forShapes(const std::vector<std::vector<int64_t>>& inputShapes) {
    if (last && shapes == inputShapes) return *last;
    use(specializer.at(inputShapes));
    shapes = inputShapes;
    return *last;
  }
};

Executable Model::compile(const Settings& settings) const {
  Executable executable;
  executable.state_ = std::make_shared<Executable::State>(state_->graph, settings);
  bool free = false;  // extents that only a run's inputs decide
  for (const auto& [name, range] : state_->graph.dims) free = free || !settings.dims.count(name);
  if (!free) executable.state_->current();
  return executable;
}

namespace {

void checkCount(size_t found, size_t expected, const char* what) {
  if (found != expected) userError("{} {} found, expected {}", found, what, expected);
}

void runOn(Specializer::Instance& instance, const std::vector<const void*>& inputs,
           const std::vector<void*>& outputs) {
  checkCount(inputs.size(), instance.program->inputs.size(), "input buffers");
  checkCount(outputs.size(), instance.program->outputs.size(), "output buffers");
  instance.session->run(inputs.data(), outputs.data());
}

Report reportOn(Specializer& specializer, const Specializer::Instance& instance) {
  CompileOptions apart = specializer.options();
  apart.fusion.unfused = apart.interpret = true;  // planned, not compiled
  return makeReport(*instance.program, tektite::compile(instance.graph, apart).get());
}

}  // namespace

void Executable::run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  runOn(state_->current(), inputs, outputs);
}

void Executable::run(const std::vector<const void*>& inputs,
                     const std::vector<std::vector<int64_t>>& inputShapes,
                     const std::vector<void*>& outputs) {
  runOn(state_->forShapes(inputShapes), inputs, outputs);
}

std::vector<std::vector<int64_t>> Executable::outputShapes(
    const std::vector<std::vector<int64_t>>& inputShapes) {
  std::vector<std::vector<int64_t>> shapes;
  for (const TensorType& type : state_->forShapes(inputShapes).program->outputs)
    shapes.push_back(type.extents());
  return shapes;
}

Summary Executable::summary() const {
  const Report r = reportOn(state_->specializer, state_->current());
  return {r.launches,
          r.launchesUnfused,
          r.bytes,
          r.bytesUnfused,
          r.bytesMinimum,
          r.peakBytes,
          r.peakBytesUnfused,
          state_->specializer.compilations()};
}

std::string Executable::explain() const {
  return toText(reportOn(state_->specializer, state_->current()), true);
}
std::string Executable::explainJson() const {
  return toJson(reportOn(state_->specializer, state_->current()));
}

}  // namespace api
}  // namespace tektite
