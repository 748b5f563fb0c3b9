#pragma once
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "evaluators.h"
#include "onnx/import.h"
#include "onnx/tensor_file.h"
#include "runtime/chain.h"
#include "support/check.h"

namespace tektite {

/// A folder with model.onnx and test_data_set_0/{input,output}_<i>.pb, run on an evaluator.
struct ModelOutcome {
  bool passed = false;
  std::string why;  ///< where it didn't
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

inline TensorAttribute tensorFrom(const Carried& c) {
  const auto copy = std::make_shared<Array>(arrayFrom(c));
  auto data = std::make_shared<ConstData>();
  data->data = copy->data();
  data->bytes = static_cast<size_t>(copy->elements() * bytes(c.type));
  data->owner = copy;
  return {{c.type, {c.shape.begin(), c.shape.end()}}, data};
}

/// A model whose shapes are all known is one graph; else it is run in parts.
inline std::vector<TensorAttribute> outputsOf(const std::string& path, const Evaluator& evaluator,
                                              const std::vector<TensorAttribute>& inputs) {
  ModelInfo info;
  std::optional<Graph> whole;
  try {
    whole = importOnnx(path, {}, &info);
  } catch (const UserError&) {
  }
  if (whole && whole->dims.empty()) return evaluator.run(*whole, inputs);
  Team team(1);
  Chain chain(openOnnx(path), compileOptions(evaluator.unfused), team, evaluator.interpreted);
  std::vector<Carried> in;
  for (const TensorAttribute& t : inputs)
    in.push_back({t.type.dtype, t.type.extents(), t.data->data, t.data});
  std::vector<TensorAttribute> out;
  for (const Carried& c : chain.run(in)) out.push_back(tensorFrom(c));
  return out;
}

inline ModelOutcome runModel(const std::filesystem::path& folder, const Evaluator& evaluator,
                             double maxRel = 0) {
  ModelOutcome out;
  try {
    const auto inputs = readTensors(folder, "input"), expected = readTensors(folder, "output");
    const auto got = outputsOf((folder / "model.onnx").string(), evaluator, inputs);
    if (got.size() != expected.size())
      userError("{} outputs, expected {}", got.size(), expected.size());
    for (size_t i = 0; i < expected.size(); i++)
      if (const std::string d = difference(got[i], expected[i], maxRel); !d.empty()) {
        out.why = fmt::format("output {} {}", i, d);
        return out;
      }
    out.passed = true;
  } catch (const std::exception& e) {
    out.why = e.what();
    if (const size_t at = out.why.find("model.onnx: "); at != std::string::npos)
      out.why = out.why.substr(at + 12);
  }
  return out;
}

}  // namespace tektite
