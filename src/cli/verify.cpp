#include "runtime/verify.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "runtime/report.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const Comparison& c) {
  Json json{{"ok", c.ok},
            {"max_abs_err", std::min(c.maxAbs, 1.79e308)},
            {"max_rel_err", std::min(c.maxRel, 1.79e308)}};
  if (!c.ok) json["problem"] = c.problem;
  return json;
}

Json jsonOf(const GroupCheck& group) {
  Json json = jsonOf(group.error);
  json["kernel"] = group.kernel;
  json["nodes"] = group.nodes;
  json["sampled"] = group.sampled;
  return json;
}

Json jsonOf(const Verification& v) {
  Json json{{"ok", v.ok}, {"scalar_steps", v.scalarSteps}};
  json["outputs"] = Json::array();
  for (const OutputCheck& output : v.outputs) {
    Json one{{"name", output.name},
             {"against", output.interpreted ? "interpreted" : "unfused"},
             {"fused", jsonOf(output.fused)}};
    if (output.interpreted) one["unfused"] = jsonOf(output.unfused);
    json["outputs"].push_back(one);
  }
  json["kernels"] = Json::array();
  for (const GroupCheck& group : v.fused) json["kernels"].push_back(jsonOf(group));
  json["first_wrong"] = v.firstWrong ? jsonOf(v.fused[*v.firstWrong]) : Json();
  json["first_wrong_unfused"] =
      v.firstWrongUnfused ? jsonOf(v.unfused[*v.firstWrongUnfused]) : Json();
  return json;
}

std::string errorText(const Comparison& c) {
  return fmt::format("{:.3g} absolute, {:.3g} relative{}", c.maxAbs, c.maxRel,
                     c.ok ? "" : ", differs: " + c.problem);
}

void printWrong(const char* which, const GroupCheck& group) {
  fmt::print("the first {} kernel that parts from the interpreter on its own inputs: {} ({}): {}\n",
             which, group.kernel, fmt::join(group.nodes, ", "), errorText(group.error));
}

}  // namespace

namespace {

void print(const Verification& v) {
  for (const OutputCheck& output : v.outputs) {
    if (output.interpreted) {
      fmt::print("{}: largest error against the interpreter, fused {}; unfused {}\n", output.name,
                 errorText(output.fused), errorText(output.unfused));
    } else {
      fmt::print("{}: fused against unfused {}\n", output.name, errorText(output.fused));
    }
  }
  double worst = 0;
  for (const GroupCheck& group : v.fused) worst = std::max(worst, group.error.maxRel);
  const bool sampled = !v.fused.empty() && v.fused[0].sampled;
  fmt::print(
      "{} kernels, each against the interpreter on its own inputs{}: largest error {:.3g} "
      "relative\n",
      v.fused.size(), sampled ? " (sampled elements)" : "", worst);
  if (v.firstWrong) printWrong("fused", v.fused[*v.firstWrong]);
  if (v.firstWrongUnfused) printWrong("unfused", v.unfused[*v.firstWrongUnfused]);
  fmt::print("{}\n", v.ok ? "ok" : "they differ");
}

}  // namespace

int verifyModel(const Options& options) {
  Progress progress;
  VerifyOptions how;
  how.tolerance = {options.real("--rtol"), options.real("--atol"), {}};
  how.tolerance.ofLargest =
      options.given("--max-rel") ? options.real("--max-rel") : how.tolerance.relative;
  const std::vector<Prepared> parts = partsOf(prepareModel(options, progress));
  Json json = Json::array();
  bool ok = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Verification v = verifyProgram(parts[i].graph, parts[i].inputs, parts[i].options, how);
    ok = ok && v.ok;
    json.push_back(jsonOf(v));
    if (options.given("--json")) continue;
    printPart(parts, i);
    print(v);
  }
  if (options.given("--json")) fmt::print("{}\n", (parts.size() == 1 ? json[0] : json).dump(2));
  return ok ? kSame : kDiffers;
}

}  // namespace tektite::cli
