#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "runtime/report.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

/// Planned but not compiled: fast, and enough for counts.
std::shared_ptr<const Program> plan(const Prepared& p, bool unfused) {
  CompileOptions options = p.options;
  options.fusion.unfused = unfused;
  options.code = false;
  if (unfused) options.interpret = true;  // its kernels aren't looked at
  return compile(p.graph, options);
}

bool namesNode(const Report& report, const std::string& name) {
  return std::any_of(report.edges.begin(), report.edges.end(),
                     [&](const Edge& e) { return e.fromName == name || e.toName == name; });
}

}  // namespace

int explain(const Options& options) {
  Progress progress;
  const Prepared p = prepareModel(options, progress);
  const std::shared_ptr<const Program> fused = plan(p, p.options.fusion.unfused),
                                       unfused = plan(p, true);
  const Report report = makeReport(*fused, unfused.get());
  fmt::print("{}\n",
             options.given("--json") ? toJson(report) : toText(report, options.given("--edges")));
  return kSame;
}

int why(const Options& options) {
  Progress progress;
  const Prepared p = prepareModel(options, progress);
  const std::string a = options.text("A"), b = options.text("B");
  const std::shared_ptr<const Program> program = plan(p, p.options.fusion.unfused);
  const Report report = makeReport(*program, nullptr);
  for (const std::string& name : {a, b}) {
    if (!namesNode(report, name))
      userError("{}: no edge of the model begins or ends at a node of this name", name);
  }
  const std::vector<Edge> edges = program->ledger.between(a, b);
  if (edges.empty()) userError("{} -> {}: no edge between these nodes", a, b);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Edge& edge : edges) {
    json.push_back(nlohmann::ordered_json::parse(toJson(edge)));
    if (!options.given("--json")) fmt::print("{}\n", toText(edge));
  }
  if (options.given("--json")) fmt::print("{}\n", json.dump(2));
  return kSame;
}

}  // namespace tektite::cli
