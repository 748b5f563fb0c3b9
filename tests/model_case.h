#pragma once
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "evaluators.h"
#include "onnx/import.h"
#include "onnx/tensor_file.h"
#include "support/check.h"

namespace tektite {

/// A folder with model.onnx and test_data_set_0/{input,output}_<i>.pb, run on an evaluator.
struct ModelOutcome {
  bool passed = false;
  bool skipped = false;      ///< the evaluator doesn't do a kind of node in it
  bool specialised = false;  ///< small inputs that decide shapes were taken as constants
  std::string why;           ///< where it didn't pass
};

inline std::vector<TensorAttribute> readTensors(const std::filesystem::path& folder,
                                                const std::string& side) {
  std::vector<TensorAttribute> out;
  for (int i = 0;; i++) {
    const auto path = folder / "test_data_set_0" / fmt::format("{}_{}.pb", side, i);
    if (!std::filesystem::exists(path)) return out;
    out.push_back(readTensor(path.string()));
  }
}

/// The first element that differs: by more than `maxRel` of the largest magnitude where that is given, else by 1e-7 + 1e-3 of its own.
inline std::string difference(const TensorAttribute& got, const TensorAttribute& expected,
                              double maxRel) {
  if (!(got.type == expected.type))
    return fmt::format("is {}, expected {}", toText(got.type), toText(expected.type));
  const DType t = got.type.dtype;
  const void *a = got.data->data, *e = expected.data->data;
  double largest = 0;
  for (int64_t i = 0; maxRel > 0 && isFloat(t) && i < got.type.elements(); i++)
    if (const double y = std::fabs(loadFloat(t, e, i)); std::isfinite(y))
      largest = std::max(largest, y);
  for (int64_t i = 0; i < got.type.elements(); i++) {
    if (isFloat(t)) {
      const double x = loadFloat(t, a, i), y = loadFloat(t, e, i);
      const bool same =
          std::isnan(y) ? std::isnan(x)
          : std::isinf(y)
              ? x == y
              : std::fabs(x - y) <= (maxRel > 0 ? maxRel * largest : 1e-7 + 1e-3 * std::fabs(y));
      if (!same) return fmt::format("element {} is {}, expected {}", i, x, y);
    } else if (loadInteger(t, a, i) != loadInteger(t, e, i)) {
      return fmt::format("element {} is {}, expected {}", i, loadInteger(t, a, i),
                         loadInteger(t, e, i));
    }
  }
  return "";
}

/// Imports with the dims that the inputs say, and, only where that is refused, with small inputs as constants.
inline Graph importFor(const std::string& path, const std::vector<TensorAttribute>& inputs,
                       std::vector<TensorAttribute>& fed, bool& specialised) {
  ImportOptions options;
  ModelInfo info;
  std::map<std::string, TensorAttribute> byName;
  const auto attempt = [&]() -> std::optional<Graph> {
    try {
      return importOnnx(path, options, &(info = {}));
    } catch (const UserError&) {
      return std::nullopt;
    }
  };
  auto graph = attempt();
  for (size_t i = 0; i < inputs.size() && i < info.inputs.size(); i++)
    byName[info.inputs[i].name] = inputs[i];
  if (!info.dims.empty()) {
    for (const auto& [name, tensor] : byName) options.shapes[name] = tensor.type.extents();
    graph = attempt();
  }
  if (!graph) {
    specialised = true;
    for (const auto& [name, tensor] : byName)
      if (tensor.type.rank() <= 1 && tensor.type.elements() <= 64) options.fixed[name] = tensor;
    graph = importOnnx(path, options, &(info = {}));
  }
  for (const auto& port : info.inputs) fed.push_back(byName.at(port.name));
  return *graph;
}

inline ModelOutcome runModel(const std::filesystem::path& folder, const Evaluator& evaluator,
                             double maxRel = 0) {
  ModelOutcome out;
  try {
    const auto inputs = readTensors(folder, "input"), expected = readTensors(folder, "output");
    std::vector<TensorAttribute> fed;
    const Graph graph = importFor((folder / "model.onnx").string(), inputs, fed, out.specialised);
    const auto got = evaluator.run(graph, fed);
    for (size_t i = 0; i < expected.size() && i < got.size(); i++)
      if (const std::string d = difference(got[i], expected[i], maxRel); !d.empty()) {
        out.why = fmt::format("output {} {}", i, d);
        return out;
      }
    out.passed = true;
  } catch (const Skipped& e) {
    out.skipped = true;
    out.why = e.what();
  } catch (const std::exception& e) {
    out.why = e.what();
    if (const size_t at = out.why.find("model.onnx: "); at != std::string::npos)
      out.why = out.why.substr(at + 12);
  }
  return out;
}

}  // namespace tektite
