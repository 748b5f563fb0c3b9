#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "runtime/report.h"
#include "runtime/report_html.h"
#include "runtime/simulated.h"
#include "runtime/warm.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

/// Planned but not compiled: fast, and enough for counts. `shown`: its kernels are looked at.
std::shared_ptr<const Program> plan(const Prepared& p, bool unfused, bool shown) {
  CompileOptions options = p.options;
  options.fusion.unfused = unfused;
  options.code = false;
  options.resources = shown;
  return compile(p.graph, options);
}

/// page.html, page_2.html, ...
std::string partName(const std::string& path, size_t part) {
  if (part == 0) return path;
  const std::filesystem::path p(path);
  return (p.parent_path() /
          fmt::format("{}_{}{}", p.stem().string(), part + 1, p.extension().string()))
      .string();
}

bool namesNode(const Report& report, const std::string& name) {
  const auto names = [&](const Edge& e) { return e.fromName == name || e.toName == name; };
  return std::ranges::any_of(report.edges, names) || std::ranges::any_of(report.pairs, names);
}

}  // namespace

int explain(const Options& options) {
  Progress progress;
  const std::vector<Prepared> parts = partsOf(prepareModel(options, progress));
  if (options.given("--sweep")) return sweep(options, parts);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (size_t i = 0; i < parts.size(); ++i) {
    const Prepared& p = parts[i];
    const std::shared_ptr<const Program> fused = plan(p, p.options.fusion.unfused, true),
                                         unfused = plan(p, true, false);
    Report report = makeReport(*fused, unfused.get());
    if (p.options.target.kind == "gpu")
      report.bytesReadWarm = bytesReadWarm(*fused, p.options.target.last().bytes);
    std::vector<TraceEvent> trace;
    const bool traced = options.given("--trace");
    addSimulated(report, simulatedSteps(*fused, p.options.target, traced ? &trace : nullptr),
                 p.options.target);
    report.simulatedUnfused = simulatedOf(*unfused, p.options.target);
    if (traced)
      writeText(partName(options.text("--trace"), i), chromeTrace(trace, p.options.target));
    if (options.given("--html"))
      writeText(partName(options.text("--html"), i), toHtml(*fused, report, p.options.target));
    if (options.given("--json")) {
      json.push_back(nlohmann::ordered_json::parse(toJson(report)));
      continue;
    }
    printPart(parts, i);
    fmt::print("{}\n", toText(report, options.given("--edges")));
  }
  if (options.given("--json")) fmt::print("{}\n", (json.size() == 1 ? json[0] : json).dump(2));
  return kSame;
}

int why(const Options& options) {
  Progress progress;
  const std::string a = options.text("A"), b = options.text("B");
  std::vector<Edge> edges;
  std::map<std::string, bool> named{{a, false}, {b, false}};
  for (const Prepared& p : partsOf(prepareModel(options, progress))) {
    const std::shared_ptr<const Program> program = plan(p, p.options.fusion.unfused, false);
    const Report report = makeReport(*program, nullptr);
    for (auto& [name, found] : named) found = found || namesNode(report, name);
    for (const Edge& edge : program->ledger.between(a, b)) edges.push_back(edge);
  }
  for (const std::string& name : {a, b}) {
    if (!named.at(name))
      userError("{}: no edge of the model begins or ends at a node of this name", name);
  }
  if (edges.empty()) userError("{} -> {}: no edge between these nodes", a, b);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Edge& edge : edges) {
    json.push_back(nlohmann::ordered_json::parse(toJson(edge)));
    if (!options.given("--json")) fmt::print("{}\n", toText(edge));
  }
  if (options.given("--json")) fmt::print("{}\n", json.dump(2));
  return kSame;
}

namespace {

/// Edges whose verdict the change turns, as they are afterwards.
std::vector<Edge> turned(const Ledger& before, const Ledger& after) {
  std::map<std::pair<Value, int>, Verdict> was;
  for (const Edge& e : before.edges) was[{e.from, e.to}] = e.verdict;
  std::vector<Edge> out;
  for (const Edge& e : after.edges) {
    const auto at = was.find({e.from, e.to});
    if (at != was.end() && (at->second == Verdict::Unfused) != (e.verdict == Verdict::Unfused))
      out.push_back(e);
  }
  return out;
}

void addTotals(Report& all, const Report& one) {
  all.launches += one.launches;
  all.bytes += one.bytes;
  all.peakBytes = std::max(all.peakBytes, one.peakBytes);
  all.predicted = std::max(all.predicted, 0.0) + one.predicted;
}

}  // namespace

int whatIf(const Options& options) {
  if (!options.given("--fuse") && !options.given("--cut"))
    userError("what-if: neither --fuse A,B nor --cut A,B found, expected one of them at least");
  Progress progress;
  Report was, is;
  std::vector<Edge> edges;
  for (Prepared& p : partsOf(prepareModel(options, progress))) {
    const std::shared_ptr<const Program> after = plan(p, p.options.fusion.unfused, false);
    p.options.fusion.cut.clear();
    p.options.fusion.force.clear();
    const std::shared_ptr<const Program> before = plan(p, p.options.fusion.unfused, false);
    addTotals(was, makeReport(*before, nullptr));
    addTotals(is, makeReport(*after, nullptr));
    for (Edge& edge : turned(before->ledger, after->ledger)) edges.push_back(std::move(edge));
  }
  if (options.given("--json")) {
    using Json = nlohmann::ordered_json;
    const auto numbers = [](const Report& r) {
      return Json{{"launches", r.launches},
                  {"bytes", r.bytes},
                  {"peak_bytes", r.peakBytes},
                  {"predicted_ms", r.predicted * 1e3}};
    };
    Json json{{"before", numbers(was)}, {"after", numbers(is)}, {"edges", Json::array()}};
    for (const Edge& e : edges) json["edges"].push_back(Json::parse(toJson(e)));
    fmt::print("{}\n", json.dump(2));
    return kSame;
  }
  const auto line = [](const char* what, const std::string& a, const std::string& b) {
    fmt::print("{:<24} {:>12} {:>12}\n", what, a, b);
  };
  const auto bytes = [](int64_t b) { return bytesText(static_cast<double>(b)); };
  line("in total", "before", "after");
  line("launches", fmt::to_string(was.launches), fmt::to_string(is.launches));
  line("main-memory bytes", bytes(was.bytes), bytes(is.bytes));
  line("peak of intermediates", bytes(was.peakBytes), bytes(is.peakBytes));
  line("predicted time", secondsText(was.predicted), secondsText(is.predicted));
  fmt::print("\nedges that change\n");
  for (const Edge& e : edges) fmt::print("  {}\n", toText(e));
  return kSame;
}

}  // namespace tektite::cli
