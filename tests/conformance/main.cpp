// ONNX's backend tests, or models with stored outputs: tektite_conformance DATA LIST [FILTER [MAX_REL]]. DATA/<test>/ holds model.onnx and
// test_data_set_0/; LIST names a test a line (the first word). With MAX_REL an element may differ by that part of its output's largest
// magnitude; else by 1e-7 + 1e-3 of its own. Prints each test that does not pass with its reason, then the counts.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "evaluators.h"
#include "onnx/import.h"
#include "onnx/tensor_file.h"
#include "support/check.h"

namespace tektite {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  bool passed = false, specialised = false;  // specialised: small inputs that decide shapes were taken as constants
  std::string why;
};

std::vector<TensorAttribute> readAll(const fs::path& folder, const std::string& side) {
  std::vector<TensorAttribute> out;
  for (int i = 0;; i++) {
    const fs::path path = folder / "test_data_set_0" / fmt::format("{}_{}.pb", side, i);
    if (!fs::exists(path)) return out;
    out.push_back(readTensor(path.string()));
  }
}

std::string difference(const TensorAttribute& got, const TensorAttribute& expected, double maxRel) {
  if (!(got.type == expected.type)) return fmt::format("is {}, expected {}", toText(got.type), toText(expected.type));
  const DType t = got.type.dtype;
  const void *a = got.data->data, *e = expected.data->data;
  double largest = 0;
  for (int64_t i = 0; maxRel > 0 && isFloat(t) && i < got.type.elements(); i++)
    if (const double y = std::fabs(loadFloat(t, e, i)); std::isfinite(y)) largest = std::max(largest, y);
  for (int64_t i = 0; i < got.type.elements(); i++) {
    if (isFloat(t)) {
      const double x = loadFloat(t, a, i), y = loadFloat(t, e, i);
      const bool same = std::isnan(y) ? std::isnan(x) : std::isinf(y) ? x == y : std::fabs(x - y) <= (maxRel > 0 ? maxRel * largest : 1e-7 + 1e-3 * std::fabs(y));
      if (!same) return fmt::format("element {} is {}, expected {}", i, x, y);
    } else if (loadInteger(t, a, i) != loadInteger(t, e, i)) {
      return fmt::format("element {} is {}, expected {}", i, loadInteger(t, a, i), loadInteger(t, e, i));
    }
  }
  return "";
}

Outcome runTest(const fs::path& folder, const Evaluator& evaluator, double maxRel) {
  Outcome out;
  try {
    const auto inputs = readAll(folder, "input"), expected = readAll(folder, "output");
    const std::string path = (folder / "model.onnx").string();
    ImportOptions options;
    ModelInfo info;
    std::map<std::string, TensorAttribute> fed;
    const auto attempt = [&]() -> std::optional<Graph> {
      try {
        return importOnnx(path, options, &(info = {}));
      } catch (const UserError&) {
        return std::nullopt;
      }
    };
    auto graph = attempt();
    for (size_t i = 0; i < inputs.size() && i < info.inputs.size(); i++) fed[info.inputs[i].name] = inputs[i];
    if (!info.dims.empty()) {
      for (const auto& [name, tensor] : fed) options.shapes[name] = tensor.type.extents();
      graph = attempt();
    }
    if (!graph) {
      out.specialised = true;
      for (const auto& [name, tensor] : fed)
        if (tensor.type.rank() <= 1 && tensor.type.elements() <= 64) options.fixed[name] = tensor;
      graph = importOnnx(path, options, &(info = {}));
    }
    std::vector<TensorAttribute> values;
    for (const auto& port : info.inputs) values.push_back(fed.at(port.name));
    const auto got = evaluator.run(*graph, values);
    for (size_t i = 0; i < expected.size() && i < got.size(); i++)
      if (const std::string d = difference(got[i], expected[i], maxRel); !d.empty()) {
        out.why = fmt::format("output {} {}", i, d);
        return out;
      }
    out.passed = true;
  } catch (const std::exception& e) {
    out.why = e.what();
    if (const size_t at = out.why.find("model.onnx: "); at != std::string::npos) out.why = out.why.substr(at + 12);
  }
  return out;
}

}  // namespace
}  // namespace tektite

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
    if (std::string name; std::istringstream(line) >> name && name[0] != '#' && name.find(filter) != std::string::npos) tests.push_back(name);
  for (const auto& evaluator : tektite::evaluators()) {
    int passed = 0, specialised = 0;
    for (const std::string& name : tests) {
      const auto outcome = tektite::runTest(std::filesystem::path(argv[1]) / name, evaluator, maxRel);
      passed += outcome.passed;
      specialised += outcome.passed && outcome.specialised;
      if (!outcome.passed) std::cout << name << ": " << outcome.why << std::endl;
    }
    std::cout << evaluator.name << ": " << passed << " of " << tests.size() << " pass, " << specialised
              << " of them with small inputs that decide shapes taken as constants\n";
    status |= passed != static_cast<int>(tests.size());
  }
  return status;
}
