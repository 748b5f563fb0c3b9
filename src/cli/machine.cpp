#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "ops/op.h"
#include "runtime/limits.h"
#include "runtime/report.h"
#include "runtime/team.h"
#include "support/parallel.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const Target& t) {
  Json json{{"name", t.name},
            {"kind", t.kind},
            {"cores", t.cores},
            {"vector_bytes", t.vectorBytes},
            {"vector_registers", t.vectorRegisters},
            {"fma", t.fma},
            {"masked_moves", t.maskedMoves},
            {"hertz", t.hertz},
            {"cpu", t.cpu},
            {"triple", t.triple},
            {"features", t.features}};
  json["levels"] = Json::array();
  for (const Level& level : t.levels) {
    json["levels"].push_back({{"name", level.name},
                              {"bytes", level.bytes},
                              {"bytes_per_second", level.bytesPerSecond},
                              {"shared_bytes_per_second", level.sharedBytesPerSecond}});
  }
  return json;
}

Json measured(int threads) {
  constexpr double kSeconds = 0.2;  // of each
  Team team(threads);
  const double fma = measureFma(team, kSeconds);
  const Bandwidths limits = measureBandwidths(team, 2 * kSeconds);
  return {{"threads", threads},
          {"fma_gflops", fma * 1e-9},
          {"read_gbs", limits.readBytes * 1e-9},
          {"triad_gbs", limits.triadBytes * 1e-9}};
}

}  // namespace

int machine(const Options& options) {
  const Target target = targetOf(options);
  Json limits = Json::array();
  if (options.given("--measure")) {
    limits.push_back(measured(1));
    if (hardwareThreads() > 1) limits.push_back(measured(hardwareThreads()));
  }
  if (options.given("--json")) {
    Json json = jsonOf(target);
    if (!limits.empty()) json["measured"] = limits;
    fmt::print("{}\n", json.dump(2));
    return kSame;
  }
  fmt::print("{}", target.toText());
  for (const Json& one : limits) {
    fmt::print("measured, {} threads: {:.1f} GFLOP/s, reads {:.1f} GB/s, triad {:.1f} GB/s\n",
               one.at("threads").get<int>(), one.at("fma_gflops").get<double>(),
               one.at("read_gbs").get<double>(), one.at("triad_gbs").get<double>());
  }
  return kSame;
}

int ops(const Options& options) {
  if (options.given("--markdown")) {
    fmt::print("{}", opsMarkdown());
    return kSame;
  }
  Json json = Json::array();
  for (const OpDef* op : allOpDefs()) {
    if (options.given("--json"))
      json.push_back({{"name", op->name}, {"domain", op->domain}, {"since", op->since}});
    else
      fmt::print("{}{}{} (since {})\n", op->domain, op->domain.empty() ? "" : ".", op->name,
                 op->since);
  }
  if (options.given("--json")) fmt::print("{}\n", json.dump(2));
  return kSame;
}

}  // namespace tektite::cli
