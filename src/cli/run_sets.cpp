#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "runtime/chain.h"
#include "runtime/compare.h"
#include "runtime/dims.h"
#include "runtime/specialize.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kKept = 32;  // programs for different extents

/// A model for inputs of any shape: one graph that is compiled for each set of extents; in parts where that graph makes no sense.
class AnyShape {
 public:
  AnyShape(const Options& options, CompileOptions compile) : team_(compile.threads) {
    const std::string path = options.text("MODEL");
    if (!path.ends_with(".onnx") || options.given("--builtin")) {
      whole_.emplace(loadModel(options), std::move(compile), kKept);
      return;
    }
    OpenedModel opened = openModel(path);
    for (const ModelInfo::Port& port : opened.info.inputs) names_.push_back(port.name);
    if (opened.graph) whole_.emplace(std::move(*opened.graph), compile, kKept);
    const RestPtr parts = opened.parts ? opened.parts : openOnnx(path, &opened.info);
    parts_.emplace(parts, std::move(compile), team_);
  }

  std::vector<Array> run(const std::vector<Array>& inputs) {
    if (whole_) {
      std::vector<std::vector<int64_t>> shapes;
      for (const Array& input : inputs) shapes.push_back(input.shape);
      Specializer::Instance* instance = nullptr;
      try {
        instance = &whole_->at(shapes);
      } catch (const UserError&) {
        if (!parts_) throw;
      }
      if (instance) {
        std::vector<Array> outputs = newOutputs(*instance->program);
        instance->session->run(pointersTo(inputs).data(), writablePointersTo(outputs).data());
        return outputs;
      }
    }
    std::vector<Carried> in;
    for (const Array& input : inputs) in.push_back(carriedFrom(input));
    std::vector<Array> outputs;
    for (const Carried& c : parts_->run(in)) outputs.push_back(arrayFrom(c));
    return outputs;
  }
  size_t inputs() const { return whole_ ? whole_->model().inputs().size() : names_.size(); }
  int compilations() const {
    return (whole_ ? whole_->compilations() : 0) + (parts_ ? parts_->compilations() : 0);
  }

 private:
  Team team_;
  std::vector<std::string> names_;
  std::optional<Specializer> whole_;
  std::optional<Chain> parts_;
};

}  // namespace

int runSets(const Options& options) {
  const std::vector<std::string> from = options.texts("--inputs"), to = options.texts("--expect");
  if (!to.empty() && to.size() != from.size())
    userError("--expect: {} folders found, expected {}, as many as of --inputs", to.size(),
              from.size());
  Progress progress;
  AnyShape model(options, compileOptions(options, progress));
  Json json{{"runs", Json::array()}};
  bool ok = true;
  for (size_t i = 0; i < from.size(); ++i) {
    const std::vector<Array> outputs = model.run(readArrays(from[i], "input", model.inputs()));
    Json run{{"inputs", from[i]}, {"compilations", model.compilations()}, {"ok", true}};
    std::string line = from[i] + ":";
    std::vector<Array> expected;
    if (!to.empty()) expected = readArrays(to[i], "output", outputs.size());
    for (size_t o = 0; o < outputs.size(); ++o) {
      line += " " + shapeText(outputs[o].type, outputs[o].shape);
      if (expected.empty()) continue;
      const Comparison c = compare(outputs[o], expected[o], toleranceOf(options));
      line += c.ok ? fmt::format(" error {:.3g}", c.maxRel) : " differs, " + c.problem;
      run["max_rel_err"].push_back(std::min(c.maxRel, 1.79e308));
      if (!c.ok) ok = run["ok"] = false;
    }
    json["runs"].push_back(run);
    if (!options.given("--json"))
      fmt::print("{}, {} compilations so far\n", line, model.compilations());
  }
  json["compilations"] = model.compilations();
  json["ok"] = ok;
  if (options.given("--json")) fmt::print("{}\n", json.dump(2));
  return ok ? kSame : kDiffers;
}

}  // namespace tektite::cli
