// ONNX's backend tests, or models with stored outputs: tektite_conformance DATA LIST [FILTER [MAX_REL]]. DATA/<test>/ holds model.onnx and
// test_data_set_0/; LIST names a test a line (the first word). With MAX_REL an element may differ by that part of its output's largest
// magnitude; else by 1e-7 + 1e-3 of its own. Prints each test that does not pass with its reason, then the counts.
#include <fstream>
#include <iostream>
#include <sstream>

#include "model_case.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: tektite_conformance DATA LIST [FILTER [MAX_REL]]\n";
    return 2;
  }
  const std::string filter = argc > 3 ? argv[3] : "";
  const double maxRel = argc > 4 ? std::atof(argv[4]) : 0;
  std::ifstream list(argv[2]);
  int status = 0;
  std::vector<std::string> tests;
  for (std::string line; std::getline(list, line);)
    if (std::string name; std::istringstream(line) >> name && name[0] != '#' &&
                          name.find(filter) != std::string::npos)
      tests.push_back(name);
  for (const auto& evaluator : tektite::evaluators()) {
    int passed = 0, specialised = 0, skipped = 0;
    for (const std::string& name : tests) {
      const auto outcome =
          tektite::runModel(std::filesystem::path(argv[1]) / name, evaluator, maxRel);
      passed += outcome.passed;
      skipped += outcome.skipped;
      specialised += outcome.passed && outcome.specialised;
      if (!outcome.passed)
        std::cout << evaluator.name << ": " << name << ": " << outcome.why << std::endl;
    }
    std::cout << evaluator.name << ": " << passed << " of " << tests.size() << " pass, " << skipped
              << " skipped, " << specialised
              << " passed with small inputs that decide shapes taken as constants\n";
    status |= passed != static_cast<int>(tests.size());
  }
  return status;
}
