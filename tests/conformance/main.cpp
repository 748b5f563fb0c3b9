// ONNX's backend tests: tektite_conformance DATA LIST [EXPECTED [FILTER]]. DATA/<test>/ holds model.onnx and test_data_set_0/; LIST names a
// test a line (the first word). Every test runs interpreted, fused and unfused; an element may differ by 1e-7 + 1e-3 of its own. EXPECTED
// names the failures: a line is `test modes reason`, modes being `all` or names joined by commas. What isn't named passes, and what is
// named fails: all else is printed, and makes the exit code 1. TEKTITE_TIMES=1 prints the slowest.
#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "model_case.h"
#include "support/parallel.h"

namespace {

using namespace tektite;

struct Test {
  std::string name;
  std::vector<ModelOutcome> outcomes;  // of each evaluator
  double seconds = 0;
};

std::vector<Test> testsIn(const std::string& path, const std::string& filter) {
  std::ifstream list(path);
  std::vector<Test> tests;
  for (std::string line; std::getline(list, line);)
    if (std::string name; std::istringstream(line) >> name && name[0] != '#' &&
                          name.find(filter) != std::string::npos)
      tests.push_back({name, {}});
  return tests;
}

/// `test mode` of each failure that is expected.
std::set<std::string> failuresIn(const std::string& path) {
  std::ifstream list(path);
  std::set<std::string> failures;
  for (std::string line; std::getline(list, line);) {
    std::string name, modes;
    if (!(std::istringstream(line) >> name >> modes) || name[0] == '#') continue;
    for (const Evaluator& e : evaluators())
      if (modes == "all" || ("," + modes + ",").find("," + e.name + ",") != std::string::npos)
        failures.insert(name + " " + e.name);
  }
  return failures;
}

void run(const std::filesystem::path& data, Test& test) {
  const auto start = std::chrono::steady_clock::now();
  for (const Evaluator& e : evaluators()) test.outcomes.push_back(runModel(data / test.name, e));
  test.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: tektite_conformance DATA LIST [EXPECTED [FILTER]]\n";
    return 2;
  }
  std::vector<Test> tests = testsIn(argv[2], argc > 4 ? argv[4] : "");
  const auto expected = failuresIn(argc > 3 ? argv[3] : "");
  parallelFor(tests.size(), hardwareThreads(), [&](size_t i) { run(argv[1], tests[i]); });

  int surprises = 0;
  for (size_t m = 0; m < evaluators().size(); m++) {
    const std::string mode = evaluators()[m].name;
    size_t passed = 0;
    for (const Test& test : tests) {
      const ModelOutcome& outcome = test.outcomes[m];
      passed += outcome.passed;
      const bool known = expected.count(test.name + " " + mode) != 0;
      if (outcome.passed != known) continue;
      surprises++;
      std::cout << test.name << " " << mode << " "
                << (known ? "passes, though it is listed as failing" : outcome.why) << std::endl;
    }
    std::cout << mode << ": " << passed << " of " << tests.size() << " pass" << std::endl;
  }
  if (std::getenv("TEKTITE_TIMES")) {
    std::sort(tests.begin(), tests.end(),
              [](const Test& a, const Test& b) { return a.seconds > b.seconds; });
    for (size_t i = 0; i < std::min<size_t>(tests.size(), 20); i++)
      std::cout << tests[i].seconds << " s " << tests[i].name << std::endl;
  }
  return surprises != 0 || tests.empty();
}
