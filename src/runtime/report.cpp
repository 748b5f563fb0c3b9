#include "runtime/report.h"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ir/bytes.h"

namespace tektite {
namespace {

using Json = nlohmann::ordered_json;

/// Inputs, constants and outputs, once each.
int64_t minimumBytes(const Program& program) {
  int64_t total = program.constantBytes;
  for (const TensorType& type : program.inputs) total += bytesOf(type);
  for (const TensorType& type : program.outputs) total += bytesOf(type);
  std::set<const void*> seen;
  for (const Node& node : program.graph.nodes) {  // those that were packed, too
    const Group* group = node.as<Group>();
    for (const Node& inner : group ? group->body->nodes : std::vector<Node>{}) {
      const Const* constant = inner.as<Const>();
      if (constant && constant->data && seen.insert(constant->data->data).second)
        total += bytesOf(inner.results[0]);
    }
  }
  for (const Slot& slot : program.slots) {
    if (slot.kind == Slot::Constant && seen.count(slot.data)) total -= slot.bytes;
  }
  return total;
}

struct Totals {
  int64_t launches = 0, bytes = 0;
  double predicted = 0;
};

Totals totalsOf(const Program& program) {
  Totals totals;
  for (const Step& step : program.steps) {
    if (step.kind == Step::Copy) {
      totals.launches += 1;
      totals.bytes += 2 * program.slots[step.slots[1]].bytes;
    } else {
      const Cost& cost = program.kernels[step.kernel].cost;
      totals.launches += std::max<int64_t>(cost.launches, 1);
      totals.bytes += cost.bytesRead + cost.bytesWritten;
      totals.predicted += cost.seconds;
    }
  }
  return totals;
}

KernelReport reportOf(const Program& program, const Step& step) {
  KernelReport report;
  if (step.kind == Step::Copy) {
    report.name = "copy";
    report.bytesRead = report.bytesWritten = program.slots[step.slots[1]].bytes;
    return report;
  }
  const KernelInfo& kernel = program.kernels[step.kernel];
  const Cost& cost = kernel.cost;
  report.name = kernel.name;
  report.nodes = kernel.nodes;
  report.launches = std::max<int64_t>(cost.launches, 1);
  report.bytesRead = cost.bytesRead;
  report.bytesWritten = cost.bytesWritten;
  report.scratchBytes = std::max(cost.scratchBytes, kernel.artifact.needs.scratchBytes);
  report.flops = cost.flops;
  report.recompute = cost.recompute;
  report.registers = cost.registers;
  report.predicted = cost.seconds;
  report.interpreted = kernel.interpreted;
  report.resources = kernel.artifact.resources;
  report.team = kernel.team;
  return report;
}

std::string scaled(double value, std::initializer_list<std::pair<double, const char*>> units) {
  for (const auto& [unit, name] : units) {
    if (value >= unit)
      return fmt::format("{:.{}f} {}", value / unit,
                         value < 10 * unit    ? 2
                         : value < 100 * unit ? 1
                                              : 0,
                         name);
  }
  return fmt::format("{:g} {}", value, units.end()[-1].second);
}

/// The nodes, cut to a width: "conv1, bn1, relu1 and 4 more".
std::string nodesText(const std::vector<std::string>& nodes, size_t width) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string more = fmt::format(" and {} more", nodes.size() - i);
    if (i > 0 && text.size() + nodes[i].size() + 2 + more.size() > width) return text + more;
    text += (i ? ", " : "") + nodes[i];
  }
  return text;
}

Json jsonOf(const Edge& edge) {
  Json json{{"from", edge.fromName}, {"to", edge.toName}, {"verdict", name(edge.verdict)}};
  if (edge.verdict == Verdict::Unfused) {
    json["reason"] = name(edge.refusal.reason);
    json["sentence"] = toText(edge.refusal);
    json["numbers"] = {{"needed", edge.refusal.needed},
                       {"available", edge.refusal.available},
                       {"what", edge.refusal.what}};
  } else {
    json["reason"] = nullptr;
    json["numbers"] = {{"bytes_saved", edge.bytesSaved}, {"launches_saved", edge.launchesSaved}};
  }
  return json;
}

Json jsonOf(const Simulated& s) {
  Json json{{"launches", s.launches},          {"bytes_read", s.bytesRead},
            {"bytes_written", s.bytesWritten}, {"weight_bytes", s.weightBytes},
            {"scratch_peak", s.scratchPeak},   {"cycles", s.cycles},
            {"busy", Json::object()}};
  for (const auto& [engine, cycles] : s.busy) json["busy"][engine] = cycles;
  return json;
}

void addTeam(Json& kernel, const TeamFacts& team) {
  if (kernel.contains("spill_bytes")) kernel["registers_predicted"] = team.registers;
  const AccessCounts& a = team.accesses;
  if (a.all())
    kernel["accesses"] = {
        {"wide", a.wide}, {"together", a.together}, {"same", a.same}, {"apart", a.apart}};
}

std::string accessesText(const Report& report) {
  AccessCounts all;
  for (const KernelReport& k : report.kernels)
    if (k.team) all += k.team->accesses;
  if (!all.all()) return "";
  return fmt::format(
      "\nloads and stores of neighbouring threads: {} wide, {} side by side, {} of one element, {} "
      "apart\n",
      all.wide, all.together, all.same, all.apart);
}

std::string simulatedText(const Simulated& s) {
  std::string text = fmt::format(
      "\nsimulated: {} launches, {} read ({} of them weights), {} written, scratchpad {}, {:.0f} "
      "cycles\n",
      s.launches, bytesText(static_cast<double>(s.bytesRead)),
      bytesText(static_cast<double>(s.weightBytes)), bytesText(static_cast<double>(s.bytesWritten)),
      bytesText(static_cast<double>(s.scratchPeak)), s.cycles);
  for (const auto& [engine, cycles] : s.busy)
    text += fmt::format("  {:<10} busy {:>14.0f} cycles\n", engine, cycles);
  return text;
}

std::string tableRow(const KernelReport& k, bool timed) {
  const std::string time = !timed          ? ""
                           : k.seconds < 0 ? fmt::format("{:>10} ", "")
                                           : fmt::format("{:>10} ", secondsText(k.seconds));
  return fmt::format("{:<36} {:>4} {:>9} {:>9} {:>11} {:>9} {:>4} {:>5} {}{}\n",
                     k.name.size() > 36 ? k.name.substr(0, 36) : k.name, k.launches,
                     bytesText(static_cast<double>(k.bytesRead)),
                     bytesText(static_cast<double>(k.bytesWritten)),
                     scaled(k.flops, {{1e9, "Gflop"}, {1e6, "Mflop"}, {1e3, "kflop"}, {1, "flop"}}),
                     secondsText(k.predicted), k.registers, k.registersOfParts, time,
                     (k.interpreted ? "(interpreted) " : "") + nodesText(k.nodes, 60));
}

}  // namespace

std::string bytesText(double bytes) {
  return scaled(bytes, {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}});
}
std::string secondsText(double s) {
  return s <= 0 ? "0" : scaled(s * 1e9, {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}});
}

Report makeReport(const Program& fused, const Program* unfused) {
  Report report;
  for (const Step& step : fused.steps) report.kernels.push_back(reportOf(fused, step));
  const Totals totals = totalsOf(fused);
  report.launches = totals.launches;
  report.bytes = totals.bytes;
  report.predicted = totals.predicted;
  report.bytesMinimum = minimumBytes(fused);
  report.peakBytes = fused.arenaBytes;
  report.edges = fused.ledger.edges;
  report.pairs = fused.ledger.pairs;
  report.fallbacks = fused.fallbacks;
  if (unfused) {
    std::map<std::string, int> demand;  // of a node's own kernels
    for (const KernelInfo& k : unfused->kernels)
      for (const std::string& node : k.nodes)
        demand[node] = std::max(demand[node], k.cost.registers);
    for (KernelReport& k : report.kernels)
      for (const std::string& node : k.nodes)
        k.registersOfParts = std::max(k.registersOfParts, demand[node]);
    const Totals apart = totalsOf(*unfused);
    report.launchesUnfused = apart.launches;
    report.bytesUnfused = apart.bytes;
    report.predictedUnfused = apart.predicted;
    report.peakBytesUnfused = unfused->arenaBytes;
  }
  return report;
}

void addSimulated(Report& report, const std::vector<Simulated>& steps, const Target& target) {
  if (!target.hasExplicitMemory()) return;
  report.simulated.emplace();
  for (size_t i = 0; i < steps.size(); ++i) {
    report.kernels[i].cycles = steps[i].cycles;
    report.simulated->add(steps[i]);
  }
}

void addTimes(Report& report, const Program& program, const std::vector<double>& stepSeconds,
              int runs) {
  for (size_t i = 0; i < program.steps.size(); ++i)
    report.kernels[i].seconds = stepSeconds[i] / runs;
}

std::string toText(const Report& report, bool edges) {
  const bool timed = report.seconds >= 0;
  std::string text = fmt::format("{:<36} {:>4} {:>9} {:>9} {:>11} {:>9} {:>4} {:>5} {}{}\n",
                                 "kernel", "n", "read", "written", "work", "predicted", "regs",
                                 "parts", timed ? fmt::format("{:>10} ", "time") : "", "nodes");
  for (const KernelReport& kernel : report.kernels) text += tableRow(kernel, timed);
  const auto line = [&](const char* what, const std::string& fused, const std::string& unfused) {
    text += fmt::format("{:<24} {:>12} {:>12}\n", what, fused, unfused);
  };
  const auto bytes = [](int64_t b) { return bytesText(static_cast<double>(b)); };
  text += "\n";
  line("in total", "fused", "unfused");
  line("launches", fmt::to_string(report.launches), fmt::to_string(report.launchesUnfused));
  line("main-memory bytes", bytes(report.bytes), bytes(report.bytesUnfused));
  line("  (least possible)", bytes(report.bytesMinimum), "");
  if (report.bytesReadWarm) line("  read, last cache warm", bytes(*report.bytesReadWarm), "");
  line("peak of intermediates", bytes(report.peakBytes), bytes(report.peakBytesUnfused));
  line("predicted time", secondsText(report.predicted), secondsText(report.predictedUnfused));
  if (timed)
    line("time", secondsText(report.seconds),
         report.secondsUnfused < 0 ? "" : secondsText(report.secondsUnfused));
  if (report.simulated) text += simulatedText(*report.simulated);
  text += accessesText(report);
  for (const Fallback& f : report.fallbacks)
    text += fmt::format("fallback: node '{}': {}\n", f.node, toText(f));
  if (edges) {
    text += "\nedges\n";
    for (const auto* list : {&report.edges, &report.pairs})
      for (const Edge& edge : *list) text += "  " + toText(edge) + "\n";
  }
  return text;
}

std::string toJson(const Report& report) {
  Json json;
  json["kernels"] = Json::array();
  for (const KernelReport& k : report.kernels) {
    Json kernel{{"name", k.name},
                {"nodes", k.nodes},
                {"launches", k.launches},
                {"bytes_read", k.bytesRead},
                {"bytes_written", k.bytesWritten},
                {"flops", k.flops},
                {"scratch_bytes", k.scratchBytes},
                {"recompute", k.recompute},
                {"registers", k.registers},
                {"registers_parts", k.registersOfParts},
                {"predicted_ms", k.predicted * 1e3}};
    if (k.resources) {
      kernel["registers"] = k.resources->registers;
      kernel["spill_bytes"] = k.resources->spillBytes;
      kernel["shared_bytes"] = k.resources->sharedBytes;
      kernel["barriers"] = k.resources->barriers;
      if (!k.resources->instructions.empty()) kernel["instructions"] = k.resources->instructions;
    }
    if (k.team) addTeam(kernel, *k.team);
    if (k.cycles >= 0) kernel["cycles"] = k.cycles;
    if (k.interpreted) kernel["interpreted"] = true;
    if (k.seconds >= 0) kernel["ms"] = k.seconds * 1e3;
    json["kernels"].push_back(kernel);
  }
  json["launches"] = report.launches;
  json["launches_unfused"] = report.launchesUnfused;
  json["bytes"] = report.bytes;
  json["bytes_unfused"] = report.bytesUnfused;
  json["bytes_minimum"] = report.bytesMinimum;
  if (report.bytesReadWarm) json["bytes_read_warm"] = *report.bytesReadWarm;
  json["peak_bytes"] = report.peakBytes;
  json["peak_bytes_unfused"] = report.peakBytesUnfused;
  json["predicted_ms"] = report.predicted * 1e3;
  json["predicted_ms_unfused"] = report.predictedUnfused * 1e3;
  if (report.simulated) json["simulated"] = jsonOf(*report.simulated);
  if (report.simulatedUnfused) json["simulated_unfused"] = jsonOf(*report.simulatedUnfused);
  json["fallbacks"] = Json::array();
  for (const Fallback& f : report.fallbacks)
    json["fallbacks"].push_back({{"node", f.node}, {"kind", f.kind}, {"steps", f.steps}});
  json["edges"] = Json::array();
  for (const Edge& edge : report.edges) json["edges"].push_back(jsonOf(edge));
  json["pairs"] = Json::array();
  for (const Edge& pair : report.pairs) json["pairs"].push_back(jsonOf(pair));
  return json.dump(2);
}

std::string toText(const Edge& edge) {
  const std::string what =
      edge.verdict == Verdict::Unfused
          ? fmt::format("unfused: {}", toText(edge.refusal))
          : fmt::format("{}, {} and {} launch{} saved", name(edge.verdict),
                        bytesText(static_cast<double>(edge.bytesSaved)), edge.launchesSaved,
                        edge.launchesSaved == 1 ? "" : "es");
  return fmt::format("{} {} {}: {}", edge.fromName, edge.beside ? "beside" : "->", edge.toName,
                     what);
}

std::string toJson(const Simulated& s) { return jsonOf(s).dump(2); }
std::string toJson(const Edge& edge) { return jsonOf(edge).dump(2); }

}  // namespace tektite
