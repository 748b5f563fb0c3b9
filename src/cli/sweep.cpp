#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/cli.h"
#include "runtime/report.h"
#include "runtime/simulated.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;

/// `launch-us`, `scratch-bytes` and `main-gbs` in these units; any other number as --set names it.
void setSwept(Target& t, const std::string& name, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) userError("--sweep: '{}' found, expected a number", text);
  if (name == "launch-us")
    t.launchSeconds = value * 1e-6;
  else if (name == "scratch-bytes")
    setNumber(t, fmt::format("scratch_bytes={}", static_cast<int64_t>(value)));
  else if (name == "main-gbs")
    t.levels.back().sharedBytesPerSecond = value * 1e9;
  else
    setNumber(t, name + "=" + text);
}

struct Totals {
  int64_t launches = 0, bytes = 0;
  double seconds = 0;
};
Totals totalsOf(const Prepared& p, const Target& target, bool unfused) {
  CompileOptions options = p.options;
  options.target = target;
  options.fusion.unfused = unfused;
  options.code = false;
  options.interpret = unfused && !target.hasExplicitMemory();
  const std::shared_ptr<const Program> program = compile(p.graph, options);
  if (const auto s = simulatedOf(*program, target))
    return {s->launches, s->bytesRead + s->bytesWritten, s->cycles / target.hertz};
  const Report r = makeReport(*program, nullptr);
  return {r.launches, r.bytes, r.predicted};
}

}  // namespace

int sweep(const Options& options, const std::vector<Prepared>& parts) {
  const std::string text = options.text("--sweep");
  const size_t equal = text.find('=');
  if (equal == std::string::npos) userError("--sweep: '{}' found, expected NAME=A,B,...", text);
  const std::string name = text.substr(0, equal);
  std::stringstream list(text.substr(equal + 1));
  std::vector<std::string> values;
  for (std::string one; std::getline(list, one, ',');) {
    values.push_back(one);
    for (const Prepared& p : parts) {  // all are looked at before any is tried
      Target target = p.options.target;
      setSwept(target, name, one);
    }
  }
  if (values.empty()) userError("--sweep: '{}' found, expected NAME=A,B,...", text);
  Json json = Json::array();
  if (!options.given("--json"))
    fmt::print("{:>16} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>7}\n", name, "launches",
               "unfused", "bytes", "unfused", "time", "unfused", "gain");
  for (const std::string& one : values) {
    Totals fused, apart;
    for (const Prepared& p : parts) {
      Target target = p.options.target;
      setSwept(target, name, one);
      for (const bool unfused : {false, true}) {
        const Totals t = totalsOf(p, target, unfused);
        Totals& sum = unfused ? apart : fused;
        sum = {sum.launches + t.launches, sum.bytes + t.bytes, sum.seconds + t.seconds};
      }
    }
    if (options.given("--json"))
      json.push_back({{name, std::strtod(one.c_str(), nullptr)},
                      {"launches", fused.launches},
                      {"launches_unfused", apart.launches},
                      {"bytes", fused.bytes},
                      {"bytes_unfused", apart.bytes},
                      {"ms", fused.seconds * 1e3},
                      {"ms_unfused", apart.seconds * 1e3}});
    else
      fmt::print("{:>16} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>6.2f}x\n", one, fused.launches,
                 apart.launches, bytesText(static_cast<double>(fused.bytes)),
                 bytesText(static_cast<double>(apart.bytes)), secondsText(fused.seconds),
                 secondsText(apart.seconds), apart.seconds / fused.seconds);
  }
  if (options.given("--json")) fmt::print("{}\n", json.dump(2));
  return kSame;
}

}  // namespace tektite::cli
