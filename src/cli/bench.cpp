#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/runner.h"
#include "runtime/limits.h"
#include "runtime/report.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr char kVersion[] = "0.1.0";
constexpr double kLimitSeconds = 0.2;    // to measure the machine's bandwidths
constexpr double kSliceSeconds = 0.002;  // one sample of a model that is faster holds several runs
constexpr size_t kMinPairs = 30;         // of a comparison

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int64_t peakRssBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

/// Times a model.
class Timer {
 public:
  Timer(const Prepared& p, bool unfused, Team& team) : runner_(p, unfused, team) {}
  /// Seconds of one inference.
  double once() {
    const auto start = Clock::now();
    runner_.run();
    return since(start);
  }
  /// The mean of `count` inferences in a row.
  double mean(int count) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) runner_.run();
    return since(start) / count;
  }
  void warmUp() {
    for (int i = 0; i < 3; ++i) estimate_ = once();
  }
  int perSample() const {
    return std::clamp(static_cast<int>(kSliceSeconds / std::max(estimate_, 1e-9)), 1, 10000);
  }
  const Runner& runner() const { return runner_; }

 private:
  Runner runner_;
  double estimate_ = 0;
};

/// What one run does: of a model in parts, the parts as often as it runs them.
struct Work {
  int64_t launches = 0;
  double bytes = 0, flops = 0;
};
Work workOf(const Runner& runner) {
  Work work;
  for (const auto& [program, times] : runner.programs()) {
    const Report report = makeReport(*program, nullptr);
    work.launches += times * report.launches;
    work.bytes += static_cast<double>(times) * static_cast<double>(report.bytes);
    for (const KernelReport& kernel : report.kernels)
      work.flops += static_cast<double>(times) * kernel.flops;
  }
  return work;
}

double quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  return samples[std::min(samples.size() - 1,
                          static_cast<size_t>(q * static_cast<double>(samples.size())))];
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t n = samples.size();
  return n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

struct Interval95 {
  double low, median, high;
};
/// The median and its 95 % interval, by the order statistics of the binomial distribution.
Interval95 medianInterval(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const double n = static_cast<double>(x.size());
  const size_t k = static_cast<size_t>(std::max(0.0, n / 2 - 0.98 * std::sqrt(n) - 0.5));
  return {x[k], median(x), x[x.size() - 1 - k]};
}

struct Samples {
  std::vector<double> fused, unfused;
  std::vector<double> fmaFlops;  ///< the machine's peak beside each of `fused`
};

/// Times for `seconds`; with a second model in turn, and at least kMinPairs pairs. `peak`: the FMA rate of now.
Samples measure(Timer& fused, Timer* unfused, const std::function<double()>& peak, double seconds,
                Progress& progress) {
  fused.warmUp();
  if (unfused) unfused->warmUp();
  Samples samples;
  const auto start = Clock::now();
  const size_t least = unfused ? kMinPairs : 3;
  while (since(start) < seconds || samples.fused.size() < least) {
    const double before = peak();
    samples.fused.push_back(fused.mean(fused.perSample()));
    samples.fmaFlops.push_back((before + peak()) / 2);
    if (unfused) samples.unfused.push_back(unfused->mean(unfused->perSample()));
    progress.show("measuring", static_cast<size_t>(std::min(since(start), seconds) * 1e3),
                  static_cast<size_t>(seconds * 1e3));
  }
  return samples;
}

/// The worker protocol: JSON lines on standard input and output, one answer a line.
int serve(const Prepared& p, Timer& timer, double compileSeconds, int64_t baseBytes) {
  const auto say = [](const Json& json) { std::cout << json.dump() << std::endl; };
  constexpr double kMegabyte = 1 << 20;
  const double once = timer.once();
  say({{"ok", true},
       {"compile_s", compileSeconds},
       {"once_s", once},
       {"version", kVersion},
       {"base_rss_mb", std::llround(static_cast<double>(baseBytes) / kMegabyte)},
       {"threads", p.options.threads}});
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const Json request = Json::parse(line);
      const std::string command = request.at("cmd");
      if (command == "run") {
        std::vector<int64_t> times;
        for (int64_t i = 0, n = request.at("n"); i < n; ++i)
          times.push_back(std::llround(timer.once() * 1e9));
        say({{"ns", times}});
      } else if (command == "save") {
        const std::string folder = request.at("dir");
        const std::vector<Array> outputs = timer.runner().outputs();
        for (size_t i = 0; i < outputs.size(); ++i)
          writeNpy(fmt::format("{}/output_{}.npy", folder, i), outputs[i]);
        say({{"ok", true}});
      } else if (command == "rss") {
        say({{"rss_mb", std::llround(static_cast<double>(peakRssBytes()) / kMegabyte)}});
      } else {
        say({{"ok", false},
             {"error", fmt::format("cmd: '{}' found, expected run, save or rss", command)}});
      }
    } catch (const std::exception& error) {
      say({{"ok", false}, {"error", error.what()}});
    }
  }
  return kSame;
}

/// The best of some runs of each kernel, by what it computes.
void addKernels(const Prepared& p, bool unfused, Team& team, Profile& profile) {
  constexpr int kRuns = 10;
  CompileOptions options = p.options;
  options.fusion.unfused = unfused;
  const std::shared_ptr<const Program> program = compile(p.graph, options);
  std::vector<Array> outputs;
  for (const TensorType& t : program->outputs) outputs.emplace_back(t.dtype, t.extents());
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Array& a : p.inputs) in.push_back(a.data());
  for (const Array& a : outputs) out.push_back(a.data());
  Session session(program, &team);
  session.run(in.data(), out.data());
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> seconds;
    session.runTimed(in.data(), out.data(), seconds);
    for (size_t i = 0; i < program->steps.size(); ++i) {
      const Step& step = program->steps[i];
      if (step.kind != Step::Kernel) continue;
      const Node& node = program->graph.nodes[static_cast<size_t>(step.node)];
      const Group* group = node.as<Group>();
      if (!group) continue;
      const Hash hash = group->body->hash();
      profile.names.emplace(hash, node.origin);
      const auto [it, isNew] = profile.seconds.emplace(hash, seconds[i]);
      if (!isNew) it->second = std::min(it->second, seconds[i]);
    }
  }
}
void writeProfile(const std::string& file, Prepared p, Team& team) {
  Profile profile{p.options.target.name, {}, {}};
  for (const Prepared& part : partsOf(std::move(p)))
    for (const bool unfused : {false, true}) addKernels(part, unfused, team, profile);
  std::ofstream out(file);
  out << profile.toText();
  if (!out) userError("{}: cannot be written", file);
}

int worker(const Options& options) {
  Progress progress;
  const int64_t base = peakRssBytes();
  try {
    const auto start = Clock::now();
    const Prepared p = prepareModel(options, progress);
    if (p.options.target.hasExplicitMemory())
      userError("--worker: {} is simulated: it has no times", p.options.target.name);
    Team team(p.options.threads);
    Timer timer(p, p.options.fusion.unfused, team);
    return serve(p, timer, since(start), base);
  } catch (const std::exception& error) {
    std::cout << Json{{"ok", false}, {"error", error.what()}}.dump() << std::endl;
    return kWrongUse;
  }
}

void print(const Json& json, const Work& work) {
  const auto ms = [&](const char* key) { return secondsText(json.at(key).get<double>() * 1e-3); };
  fmt::print("median {}, min {}, p90 {} ({} threads, {} launches; compiled in {})\n",
             ms("median_ms"), ms("min_ms"), ms("p90_ms"), json.at("threads").get<int>(),
             json.at("launches").get<int64_t>(), ms("compile_ms"));
  fmt::print(
      "{:.1f} GFLOP/s, {:.0f} % of the FMA peak of {:.1f}; {:.2f} GB/s of {} planned, {:.0f} % of "
      "{:.1f}\n",
      json.at("gflops").get<double>(), 100 * json.at("share_of_fma").get<double>(),
      json.at("fma_gflops").get<double>(), json.at("gbs").get<double>(), bytesText(work.bytes),
      100 * json.at("share_of_bandwidth").get<double>(), json.at("triad_gbs").get<double>());
  if (json.contains("ratio")) {
    fmt::print("unfused {}: fused is {:.2f} times as fast [{:.2f}, {:.2f}]\n", ms("unfused_ms"),
               json.at("ratio").get<double>(), json.at("ratio_low").get<double>(),
               json.at("ratio_high").get<double>());
  }
}

}  // namespace

int bench(const Options& options) {
  if (options.given("--worker")) return worker(options);
  const bool compare = options.given("--vs");
  if (compare && options.text("--vs") != "unfused")
    userError("--vs: '{}' found, expected unfused", options.text("--vs"));
  const double seconds = options.real("--time");
  Progress progress;
  const auto start = Clock::now();
  Prepared p = prepareModel(options, progress);
  if (p.options.target.hasExplicitMemory()) return benchSimulated(options, partsOf(std::move(p)));
  Team team(p.options.threads);
  Timer fused(p, p.options.fusion.unfused, team);
  const double compileSeconds = since(start);
  const int64_t peak = (fused.once(), peakRssBytes());
  std::optional<Timer> unfused;
  if (compare) unfused.emplace(p, true, team);
  const Samples samples = measure(
      fused, unfused ? &*unfused : nullptr,
      [&] { return fmaBurst(team, p.options.target.vectorBytes); }, seconds, progress);
  const Bandwidths limits = measureBandwidths(team, kLimitSeconds);

  const Work work = workOf(fused.runner());
  const double mid = median(samples.fused);
  std::vector<double> shares;
  for (size_t i = 0; i < samples.fused.size(); ++i)
    shares.push_back(work.flops / samples.fused[i] / samples.fmaFlops[i]);
  const Interval95 share = medianInterval(shares);
  Json json{{"median_ms", mid * 1e3},
            {"min_ms", *std::min_element(samples.fused.begin(), samples.fused.end()) * 1e3},
            {"p90_ms", quantile(samples.fused, 0.9) * 1e3},
            {"compile_ms", compileSeconds * 1e3},
            {"launches", work.launches},
            {"threads", p.options.threads},
            {"peak_rss_bytes", peak},
            {"samples", samples.fused.size()},
            {"gflops", work.flops / mid * 1e-9},
            {"gbs", work.bytes / mid * 1e-9},
            {"fma_gflops", median(samples.fmaFlops) * 1e-9},
            {"read_gbs", limits.readBytes * 1e-9},
            {"triad_gbs", limits.triadBytes * 1e-9},
            {"share_of_fma", share.median},
            {"share_of_fma_low", share.low},
            {"share_of_fma_high", share.high},
            {"share_of_bandwidth", work.bytes / mid / limits.triadBytes}};
  if (unfused) {
    std::vector<double> ratios;
    for (size_t i = 0; i < samples.fused.size(); ++i)
      ratios.push_back(samples.unfused[i] / samples.fused[i]);
    const Interval95 ratio = medianInterval(ratios);
    json["unfused_ms"] = median(samples.unfused) * 1e3;
    json["ratio"] = ratio.median;
    json["ratio_low"] = ratio.low;
    json["ratio_high"] = ratio.high;
  }
  if (options.given("--json"))
    fmt::print("{}\n", json.dump(2));
  else
    print(json, work);
  if (options.given("--write-profile"))
    writeProfile(options.text("--write-profile"), std::move(p), team);
  return kSame;
}

}  // namespace tektite::cli
