#include "golden.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace tektite {
namespace {

std::string afterPasses(const std::string& text, const GoldenSettings& settings) {
  PassOptions options;
  std::stringstream list(settings.at("passes"));
  for (std::string pass; std::getline(list, pass, ',');) options.passes.push_back(pass);
  return toText(runPasses(parseGraph(text, "case"), options));
}

TEST(Golden, GraphPasses) {
  for (const auto& file : goldenFiles("graph"))
    checkGoldens(
        file, [](const std::string& text) { return toText(parseGraph(text, "case")); },
        afterPasses);
}

}  // namespace
}  // namespace tektite
