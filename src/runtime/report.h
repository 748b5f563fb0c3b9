#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/npu/counters.h"
#include "runtime/program.h"

namespace tektite {

/// What a program does, in numbers; the same work unfused beside it.
struct KernelReport {
  std::string name;
  std::vector<std::string> nodes;
  int64_t launches = 1, bytesRead = 0, bytesWritten = 0, scratchBytes = 0;
  double flops = 0, recompute = 1;
  int registers = 0;                         ///< vector registers that the widest stage demands
  int registersOfParts = 0;                  ///< the same of its nodes unfused, the widest
  double predicted = 0;                      ///< seconds, by the cost model
  double seconds = -1;                       ///< measured, of one run; negative: not measured
  double cycles = -1;                        ///< by the target's simulator; negative: it has none
  bool interpreted = false;                  ///< by the graph interpreter: no code
  std::optional<KernelResources> resources;  ///< as the target's compiler says
  std::optional<TeamFacts> team;             ///< of a GPU's
};
struct Report {
  std::vector<KernelReport> kernels;
  std::vector<Fallback> fallbacks;
  int64_t launches = 0, launchesUnfused = 0;
  int64_t bytes = 0, bytesUnfused = 0,
          bytesMinimum = 0;  ///< minimum: inputs, constants and outputs once
  std::optional<int64_t>
      bytesReadWarm;  ///< where the last cache keeps what launches leave (runtime/warm.h)
  int64_t peakBytes = 0, peakBytesUnfused = 0;  ///< of intermediates, as planned
  double predicted = 0, predictedUnfused = 0;   ///< seconds, by the cost model
  double seconds = -1, secondsUnfused = -1;     ///< measured, of one run
  std::vector<Edge> edges;
  std::vector<Edge> pairs;  ///< of kernels that could stand side by side
  std::optional<Simulated> simulated,
      simulatedUnfused;  ///< by the target's simulator, if it has one
};

/// `unfused` may be null: its numbers are 0 then.
Report makeReport(const Program& fused, const Program* unfused);
/// Puts what the target's simulator says of each step (runtime/simulated.h) into the report; nothing where it has none.
void addSimulated(Report&, const std::vector<Simulated>& steps, const Target&);
/// Puts measured seconds of each step (as Session::runTimed adds up) over `runs` runs into the report.
void addTimes(Report&, const Program&, const std::vector<double>& stepSeconds, int runs);

std::string toText(const Report&, bool edges);
std::string toJson(const Simulated&);
std::string toJson(const Report&);  ///< the document of `explain --json`
/// One line on one edge: "conv_1 -> relu_1: inlined, 401408 bytes and 1 launch saved".
std::string toText(const Edge&);
std::string toJson(const Edge&);

std::string bytesText(double bytes);      ///< "1.5 MB"
std::string secondsText(double seconds);  ///< "3.2 us"

}  // namespace tektite
