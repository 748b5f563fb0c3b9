#include <tektite/tektite.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "api/access.h"
#include "onnx/import.h"
#include "runtime/cache.h"
#include "runtime/chain.h"
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

using Shapes = std::vector<std::vector<int64_t>>;

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

CompileOptions optionsOf(const Settings& settings, const ModelInfo& info) {
  CompileOptions options;
  options.fusion.modelCut = info.cut;
  options.fusion.modelForce = info.fuse;
  options.target = settings.target == "host" ? hostTarget() : findTarget(settings.target);
  options.threads = settings.threads > 0 ? settings.threads : hardwareThreads();
  options.fusion.unfused = !settings.fuse;
  if (settings.allowFallback) options.fallback = [](const Fallback&) {};  // explain() has them
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
  if (!path.ends_with(".tk")) {
    OpenedModel opened = openModel(path);
    if (opened.graph) {
      ModelInfo info;
      info.cut = std::move(opened.info.cut);
      info.fuse = std::move(opened.info.fuse);
      return Access::model(std::move(*opened.graph), std::move(info));
    }
    Model model;
    model.state_ = std::make_shared<State>(State{{}, opened.parts, std::move(opened.info)});
    return model;
  }
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
  for (const ModelInfo::Port& port : state_->info.inputs)
    ports.push_back(portOf(port.name, port.type));
  for (Value v : state_->graph.inputs())
    ports.push_back(portOf(state_->graph.node(v).name, state_->graph.type(v)));
  return ports;
}

std::vector<Port> Model::outputs() const {
  const Graph& graph = state_->graph;
  std::vector<Port> ports;
  for (const ModelInfo::Port& port : state_->info.outputs)
    ports.push_back(portOf(port.name, port.type));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    ports.push_back(portOf(i < graph.outputNames.size() ? graph.outputNames[i] : "",
                           graph.type(graph.outputs[i])));
  }
  return ports;
}

std::string Model::text() const {
  if (state_->parts) userError("the model's shapes depend on data: it is no one graph");
  return toText(state_->graph);
}

// ---- Executable

struct ExecutableState {
  virtual ~ExecutableState() = default;
  virtual void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) = 0;
  virtual void run(const std::vector<const void*>& inputs, const Shapes& shapes,
                   const std::vector<void*>& outputs) = 0;
  virtual std::vector<Result> results(const std::vector<const void*>& inputs,
                                      const Shapes& shapes) = 0;
  virtual Shapes outputShapes(const Shapes& inputShapes) = 0;
  virtual std::vector<Report> reports() = 0;  ///< of the programs that the last run met
  virtual int compilations() const = 0;
};

namespace {

void checkCount(size_t found, size_t expected, const char* what) {
  if (found != expected) userError("{} {} found, expected {}", found, what, expected);
}

Report reportOn(const Program& program, const Graph& graph, CompileOptions apart) {
  apart.fusion.unfused = apart.interpret = true;  // planned, not compiled
  return makeReport(program, tektite::compile(graph, apart).get());
}

/// A model that is one graph.
class Whole : public ExecutableState {
 public:
  Whole(const Graph& graph, const ModelInfo& info, const Settings& settings)
      : specializer_(graph, optionsOf(settings, info),
                     static_cast<size_t>(std::max(settings.kept, 1))),
        dims_(settings.dims) {
    bool free = false;  // extents that only a run's inputs decide
    for (const auto& [name, range] : graph.dims) free = free || !settings.dims.count(name);
    if (!free) current();
  }
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    runOn(current(), inputs, outputs);
  }
  void run(const std::vector<const void*>& inputs, const Shapes& shapes,
           const std::vector<void*>& outputs) override {
    runOn(forShapes(shapes), inputs, outputs);
  }
  std::vector<Result> results(const std::vector<const void*>& inputs,
                              const Shapes& shapes) override {
    std::vector<Result> results;
    std::vector<void*> outputs;
    for (const TensorType& type : forShapes(shapes).program->outputs) {
      const auto array = std::make_shared<Array>(type.dtype, type.extents());
      outputs.push_back(array->data());
      results.push_back({static_cast<Type>(type.dtype), array->shape, {array, array->data()}});
    }
    runOn(*last_, inputs, outputs);
    return results;
  }
  Shapes outputShapes(const Shapes& inputShapes) override {
    Shapes shapes;
    for (const TensorType& type : forShapes(inputShapes).program->outputs)
      shapes.push_back(type.extents());
    return shapes;
  }
  std::vector<Report> reports() override {
    const Specializer::Instance& i = current();
    return {reportOn(*i.program, i.graph, specializer_.options())};
  }
  int compilations() const override { return specializer_.compilations(); }

 private:
  Specializer::Instance& current() { return last_ ? *last_ : use(specializer_.at(dims_)); }
  Specializer::Instance& use(Specializer::Instance& instance) {
    last_ = &instance;
    return instance;
  }
  Specializer::Instance& forShapes(const Shapes& inputShapes) {
    if (last_ && shapes_ == inputShapes) return *last_;
    use(specializer_.at(inputShapes));
    shapes_ = inputShapes;
    return *last_;
  }
  static void runOn(Specializer::Instance& instance, const std::vector<const void*>& inputs,
                    const std::vector<void*>& outputs) {
    checkCount(inputs.size(), instance.program->inputs.size(), "input buffers");
    checkCount(outputs.size(), instance.program->outputs.size(), "output buffers");
    instance.session->run(inputs.data(), outputs.data());
  }

  Specializer specializer_;
  std::map<std::string, int64_t> dims_;
  Shapes shapes_;  // of the run before, whose instance is still at the front
  Specializer::Instance* last_ = nullptr;
};

/// A model in parts.
class InParts : public ExecutableState {
 public:
  InParts(RestPtr parts, ModelInfo info, const Settings& settings)
      : info_(std::move(info)),
        dims_(settings.dims),
        team_(optionsOf(settings, info_).threads),
        chain_(std::move(parts), optionsOf(settings, info_), team_) {}
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    run(inputs, knownShapes(), outputs);
  }
  void run(const std::vector<const void*>& inputs, const Shapes& shapes,
           const std::vector<void*>& outputs) override {
    const auto given = carried(inputs, shapes);
    checkStatic(given);
    const std::vector<Carried> made = chain_.run(given);
    checkCount(outputs.size(), made.size(), "output buffers");
    for (size_t i = 0; i < made.size(); ++i)
      std::memcpy(outputs[i], made[i].data,
                  static_cast<size_t>(elementsOf(made[i].shape) * bytes(made[i].type)));
  }
  std::vector<Result> results(const std::vector<const void*>& inputs,
                              const Shapes& shapes) override {
    std::vector<Result> results;
    for (const Carried& c : chain_.run(carried(inputs, shapes))) {
      std::shared_ptr<const void> owner = c.owner;
      const void* data = c.data;
      if (!owner) {  // an input as it was
        const auto copy = std::make_shared<Array>(arrayFrom(c));
        data = copy->data();
        owner = copy;
      }
      results.push_back({static_cast<Type>(c.type), c.shape, {owner, data}});
    }
    return results;
  }
  Shapes outputShapes(const Shapes& inputShapes) override {
    const Part& part =
        checkStatic(carried(std::vector<const void*>(inputShapes.size()), inputShapes));
    Shapes shapes;
    for (const int id : part.results) {
      const auto at = std::find(part.outputs.begin(), part.outputs.end(), id);
      shapes.push_back(
          at == part.outputs.end()
              ? inputShapes.at(static_cast<size_t>(id))
              : part.graph.type(part.graph.outputs[at - part.outputs.begin()]).extents());
    }
    return shapes;
  }
  std::vector<Report> reports() override {
    if (chain_.reached().empty())
      userError("nothing has run yet, and only a run tells what the model's parts are");
    std::vector<Report> reports;
    for (const auto& stage : chain_.reached())
      if (stage->program)
        reports.push_back(reportOn(*stage->program, stage->graph, chain_.options()));
    return reports;
  }
  int compilations() const override { return chain_.compilations(); }

 private:
  Shapes knownShapes() const {
    Shapes shapes;
    for (const ModelInfo::Port& port : info_.inputs) {
      shapes.emplace_back();
      for (const Expr& e : port.type.shape) {
        const Var* name = e.as<Var>();
        if (name && !dims_.count(name->name))
          userError("input '{}': {} has no number, expected the shapes of the inputs", port.name,
                    name->name);
        shapes.back().push_back(name ? dims_.at(name->name) : *asInteger(e));
      }
    }
    return shapes;
  }
  std::vector<Carried> carried(const std::vector<const void*>& inputs, const Shapes& shapes) const {
    checkCount(inputs.size(), info_.inputs.size(), "input buffers");
    checkCount(shapes.size(), info_.inputs.size(), "shapes of inputs");
    std::vector<Carried> out;
    for (size_t i = 0; i < inputs.size(); ++i)
      out.push_back({info_.inputs[i].type.dtype, shapes[i], inputs[i], nullptr});
    return out;
  }
  const Part& checkStatic(const std::vector<Carried>& inputs) {
    const Part& part = chain_.first(inputs).part;
    if (part.rest || part.loop)
      userError("the shapes of the outputs depend on data ({}), expected a call of results()",
                part.asks);
    return part;
  }

  ModelInfo info_;
  std::map<std::string, int64_t> dims_;
  Team team_;
  Chain chain_;
};

}  // namespace

Executable Model::compile(const Settings& settings) const {
  Executable executable;
  if (state_->parts)
    executable.state_ = std::make_shared<InParts>(state_->parts, state_->info, settings);
  else
    executable.state_ = std::make_shared<Whole>(state_->graph, state_->info, settings);
  return executable;
}

void Executable::run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  state_->run(inputs, outputs);
}

void Executable::run(const std::vector<const void*>& inputs, const Shapes& inputShapes,
                     const std::vector<void*>& outputs) {
  state_->run(inputs, inputShapes, outputs);
}

std::vector<Result> Executable::results(const std::vector<const void*>& inputs,
                                        const Shapes& inputShapes) {
  return state_->results(inputs, inputShapes);
}

Shapes Executable::outputShapes(const Shapes& inputShapes) {
  return state_->outputShapes(inputShapes);
}

Summary Executable::summary() const {
  Summary all{};
  for (const Report& r : state_->reports()) {
    all.launches += r.launches;
    all.launchesUnfused += r.launchesUnfused;
    all.bytes += r.bytes;
    all.bytesUnfused += r.bytesUnfused;
    all.bytesMinimum += r.bytesMinimum;
    all.peakBytes = std::max(all.peakBytes, r.peakBytes);
    all.fallbacks += static_cast<int>(r.fallbacks.size());
    all.peakBytesUnfused = std::max(all.peakBytesUnfused, r.peakBytesUnfused);
  }
  all.compilations = state_->compilations();
  return all;
}

std::string Executable::explain() const {
  std::string text;
  for (const Report& r : state_->reports()) text += (text.empty() ? "" : "\n") + toText(r, true);
  return text;
}

std::string Executable::explainJson() const {
  const std::vector<Report> reports = state_->reports();
  if (reports.size() == 1) return toJson(reports[0]);
  std::string text;
  for (const Report& r : reports) text += (text.empty() ? "[" : ",") + toJson(r);
  return text.empty() ? "[]" : text + "]";
}

}  // namespace api
}  // namespace tektite
