#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/runner.h"
#include "runtime/compare.h"
#include "runtime/report.h"
#include "runtime/simulated.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTimedRuns = 5;

double finite(double x) { return std::min(x, 1.79e308); }  // JSON has no infinity

struct Checked {
  std::string name;
  Comparison comparison;
};

std::vector<Checked> checkOutputs(const Options& options, const std::vector<std::string>& names,
                                  const std::vector<Array>& outputs) {
  std::vector<Checked> checked;
  const std::vector<Array> expected =
      readArrays(options.text("--expect"), "output", outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    checked.push_back({names[i], compare(outputs[i], expected[i], toleranceOf(options))});
  }
  return checked;
}

void writeOutputs(const std::string& folder, const std::vector<Array>& outputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) userError("{}: cannot be made: {}", folder, error.message());
  for (size_t i = 0; i < outputs.size(); ++i)
    writeNpy(fmt::format("{}/output_{}.npy", folder, i), outputs[i]);
}

Json jsonOf(const std::vector<std::string>& names, const std::vector<Array>& outputs,
            const std::vector<Checked>& checked) {
  Json json;
  json["outputs"] = Json::array();
  bool ok = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Json output{{"name", names[i]}, {"dtype", name(outputs[i].type)}, {"shape", outputs[i].shape}};
    output["max_abs_err"] = output["max_rel_err"] = nullptr;
    if (!checked.empty()) {
      const Comparison& c = checked[i].comparison;
      output["max_abs_err"] = finite(c.maxAbs);
      output["max_rel_err"] = finite(c.maxRel);
      output["ok"] = c.ok;
      if (!c.ok) output["problem"] = c.problem;
      ok = ok && c.ok;
    }
    json["outputs"].push_back(output);
  }
  json["ok"] = ok;
  return json;
}

void printChecked(const std::vector<Checked>& checked, const std::vector<Array>& outputs) {
  for (size_t i = 0; i < checked.size(); ++i) {
    const Comparison& c = checked[i].comparison;
    fmt::print("{} {}: largest error {:.3g} absolute, {:.3g} relative: {}\n", checked[i].name,
               shapeText(outputs[i].type, outputs[i].shape), c.maxAbs, c.maxRel,
               c.ok ? "ok" : "differs, " + c.problem);
  }
}

std::string firstElements(const Array& array) {
  std::string text;
  const int64_t n = std::min<int64_t>(array.elements(), 6);
  for (int64_t i = 0; i < n; ++i) {
    text += isFloat(array.type) ? fmt::format(" {:.6g}", loadFloat(array.type, array.data(), i))
                                : fmt::format(" {}", loadInteger(array.type, array.data(), i));
  }
  return text + (n < array.elements() ? " ..." : "");
}

/// The best times of each step and of the whole, fused and unfused.
Report timedReport(const Prepared& p, Team& team) {
  CompileOptions apart = p.options;
  apart.fusion.unfused = true;
  const std::shared_ptr<const Program> program = compile(p.graph, p.options),
                                       unfused = compile(p.graph, apart);
  const std::vector<Array> outputs = newOutputs(*program);
  const std::vector<const void*> in = pointersTo(p.inputs);
  const std::vector<void*> out = writablePointersTo(outputs);
  Report report = makeReport(*program, unfused.get());
  const auto time = [&](const std::shared_ptr<const Program>& which, double& best,
                        std::vector<double>* steps) {
    Session session(which, &team);
    for (int i = 0; i <= kTimedRuns; ++i) {
      const auto start = std::chrono::steady_clock::now();
      session.run(in.data(), out.data());
      const double seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (i == 1 || (i > 1 && seconds < best)) best = seconds;
    }
    for (int i = 0; steps && i < kTimedRuns; ++i) {
      std::vector<double> once;
      session.runTimed(in.data(), out.data(), once);
      if (i == 0) *steps = once;
      for (size_t k = 0; k < once.size(); ++k) (*steps)[k] = std::min((*steps)[k], once[k]);
    }
  };
  std::vector<double> steps;
  time(unfused, report.secondsUnfused, nullptr);
  time(program, report.seconds, &steps);
  addTimes(report, *program, steps, 1);
  return report;
}

/// A modelled machine's time is what its simulator counts.
Report countedReport(const Prepared& p) {
  CompileOptions apart = p.options;
  apart.fusion.unfused = true;
  apart.code = false;
  const std::shared_ptr<const Program> unfused = compile(p.graph, apart);
  apart.fusion.unfused = p.options.fusion.unfused;
  const std::shared_ptr<const Program> program = compile(p.graph, apart);
  Report report = makeReport(*program, unfused.get());
  report.simulated = simulatedOf(*program, p.options.target);
  return report;
}

void printReports(Prepared p, Team& team) {
  const std::vector<Prepared> parts = partsOf(std::move(p));
  fmt::print("\n");
  for (size_t i = 0; i < parts.size(); ++i) {
    printPart(parts, i);
    fmt::print("{}",
               toText(parts[i].options.target.hasExplicitMemory() ? countedReport(parts[i])
                                                                  : timedReport(parts[i], team),
                      false));
  }
}

}  // namespace

Tolerance toleranceOf(const Options& options) {
  Tolerance tolerance{options.real("--rtol"), options.real("--atol"), {}};
  if (options.given("--max-rel")) tolerance.ofLargest = options.real("--max-rel");
  return tolerance;
}

int run(const Options& options) {
  if (options.texts("--inputs").size() > 1) return runSets(options);
  Progress progress;
  Prepared p = prepareModel(options, progress);
  Team team(p.options.threads);
  std::vector<Array> outputs;
  std::vector<std::string> names;
  std::optional<Simulated> simulated;
  {
    Runner runner(p, p.options.fusion.unfused, team);
    runner.run();
    outputs = runner.outputs();
    names = runner.outputNames();
    for (const auto& [program, times] : runner.programs())
      for (int64_t k = 0; k < times; ++k)
        if (const auto one = simulatedOf(*program, p.options.target)) {
          if (!simulated) simulated = Simulated{};
          simulated->add(*one);
        }
  }
  std::vector<Checked> checked;
  if (options.given("--expect")) checked = checkOutputs(options, names, outputs);
  if (options.given("-o")) writeOutputs(options.text("-o"), outputs);
  Json json = jsonOf(names, outputs, checked);
  if (simulated) json["simulated"] = Json::parse(toJson(*simulated));
  const bool ok = json["ok"];
  if (options.given("--json")) {
    fmt::print("{}\n", json.dump(2));
    return ok ? kSame : kDiffers;
  }
  printChecked(checked, outputs);
  if (checked.empty()) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      fmt::print("{} {}:{}\n", names[i], shapeText(outputs[i].type, outputs[i].shape),
                 firstElements(outputs[i]));
    }
  }
  if (checked.empty() && !options.given("-o") && !p.options.interpret) {
    printReports(std::move(p), team);
  }
  return ok ? kSame : kDiffers;
}

}  // namespace tektite::cli
