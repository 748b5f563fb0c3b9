#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "runtime/report.h"
#include "runtime/simulated.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

Simulated countedOf(const std::vector<Prepared>& parts, bool unfused) {
  Simulated all;
  for (const Prepared& p : parts) {
    CompileOptions options = p.options;
    options.fusion.unfused = unfused;
    options.code = false;
    all.add(*simulatedOf(*compile(p.graph, options), p.options.target));
  }
  return all;
}

}  // namespace

int benchSimulated(const Options& options, const std::vector<Prepared>& parts) {
  if (parts.empty()) userError("bench: the model computes nothing, expected something to time");
  if (options.given("--write-profile"))
    userError("--write-profile: {} is simulated: there are no measured times",
              parts[0].options.target.name);
  const Target& target = parts[0].options.target;
  const Simulated s = countedOf(parts, parts[0].options.fusion.unfused);
  const auto ms = [&](const Simulated& of) { return of.cycles / target.hertz * 1e3; };
  Json json{{"simulated", Json::parse(toJson(s))},
            {"simulated_ms", ms(s)},
            {"launches", s.launches + s.gridSyncs}};
  std::optional<Simulated> apart;
  if (options.given("--vs")) {
    apart = countedOf(parts, true);
    json["simulated_unfused"] = Json::parse(toJson(*apart));
    json["simulated_unfused_ms"] = ms(*apart);
    json["ratio"] = apart->cycles / s.cycles;
  }
  if (options.given("--json")) {
    fmt::print("{}\n", json.dump(2));
    return kSame;
  }
  fmt::print("simulated on {}, not measured: {:.0f} cycles, {} ({} launches)\n", target.name,
             s.cycles, secondsText(ms(s) * 1e-3), s.launches + s.gridSyncs);
  for (const auto& [engine, cycles] : s.busy)
    fmt::print("  {:<10} busy {:>14.0f} cycles\n", engine, cycles);
  if (apart)
    fmt::print("unfused {:.0f} cycles: fused is {:.2f} times as fast\n", apart->cycles,
               apart->cycles / s.cycles);
  return kSame;
}

}  // namespace tektite::cli
