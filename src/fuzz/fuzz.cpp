#include "fuzz/fuzz.h"

#include <cmath>
#include <limits>

namespace tektite {
namespace {

constexpr double kTolerance =
    2e-4;  // folded constants are rounded to f32, the interpreter's values are not

std::optional<std::string> disagreement(const Graph& before, const Graph& after,
                                        const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> a = evaluate(before, inputs), b = evaluate(after, inputs);
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = largestDifference(a[i], b[i]);
    if (!(d <= kTolerance)) return fmt::format("output {} differs by {}", i, d);
  }
  return std::nullopt;
}

}  // namespace

double largestDifference(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return std::numeric_limits<double>::infinity();
  double scale = 1, most = 0;
  for (int64_t i = 0; i < a.elements(); ++i)
    if (std::isfinite(a.at(i))) scale = std::max(scale, std::fabs(a.at(i)));
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    if (!std::isfinite(x) || !std::isfinite(y)) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::fabs(x - y) / scale);
  }
  return most;
}

std::optional<FuzzFailure> fuzzPasses(uint64_t seed) {
  RandomGraphOptions shape;
  shape.nodes = 3 + static_cast<int>(seed % 14);
  shape.jumps = seed % 2;
  const Graph g = randomGraph(seed, shape);
  PassOptions options;
  if (seed % 3) options.disabled = {std::string(pipeline()[seed % pipeline().size()])};
  std::string text = toText(g);
  try {
    verify(g);
    const Graph after = runPasses(g, options);
    if (const auto wrong = disagreement(g, after, randomInputs(g, seed, seed % 4 == 0)))
      return FuzzFailure{seed, fmt::format("{}\n{}became\n{}", *wrong, text, toText(after))};
  } catch (const std::exception& e) {
    return FuzzFailure{seed, fmt::format("{}\n{}", e.what(), text)};
  }
  return std::nullopt;
}

}  // namespace tektite
