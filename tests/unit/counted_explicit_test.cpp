// With explicit memories the bytes that a plan names are those that its copies move: of every graph among the texts.
#include <fstream>
#include <sstream>

#include "counted_kernels.h"
#include "golden.h"
#include "passes/pass.h"

namespace tektite {
namespace {

/// The static graphs of tests/fusion and tests/graph/language without control flow and without gathers, whose elements are charged one by one.
std::vector<std::pair<std::string, Graph>> testGraphs() {
  std::vector<std::pair<std::string, Graph>> out;
  const auto add = [&](const std::string& name, const std::string& text) {
    const Graph g = parseGraph(text, name);
    if (!g.dims.empty()) return;
    for (const Node& n : g.nodes)
      if (n.as<Loop>() || n.as<Branch>() || n.as<Scan>() || n.as<Call>() || n.as<Gather>()) return;
    out.emplace_back(name, runPasses(g, {}));
  };
  for (const auto& file : goldenFiles("fusion")) {
    int number = 0;
    for (const std::string& text : goldenTexts(file))
      add(fmt::format("{} {}", file.stem().string(), number++), text);
  }
  for (const auto& file : goldenFiles("graph/language")) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    add(file.stem().string(), text.str());
  }
  return out;
}

TEST(Counted, ExplicitMemoriesMoveWhatIsPlanned) {
  int kernels = 0;
  for (const auto& [name, g] : testGraphs())
    for (const char* machine : {"npu:neuroncore2", "npu:ethos-u85-1024"})
      for (const bool unfused : {false, true}) {
        const Target target = findTarget(machine);
        for (const auto& [plan, counted] : countedKernels(g, target, unfused)) {
          EXPECT_EQ(counted.bytesRead, plan->cost.bytesRead)
              << name << " on " << machine << (unfused ? ", unfused" : "") << "\n"
              << toText(*plan);
          EXPECT_EQ(counted.bytesWritten, plan->cost.bytesWritten)
              << name << " on " << machine << (unfused ? ", unfused" : "") << "\n"
              << toText(*plan);
          kernels++;
        }
      }
  EXPECT_GT(kernels, 200);
}

}  // namespace
}  // namespace tektite
