#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace tektite {

/// m outputs y[i] = sum_k g[k] d[i + k] of r taps by m + r - 1 products: y = output ((weight g) * (input d)), with matrices that are row-major
/// [m x points], [points x r] and [points x points].
struct ShortProduct {
  int64_t outputs, taps;
  std::vector<float> output, weight, input;
  int64_t points() const { return outputs + taps - 1; }
};
/// By evaluation at 0, 1, -1, 2, -2, 1/2 ... and infinity (Toom and Cook); nothing where that needs more than six points, whose sums would lose
/// digits.
std::optional<ShortProduct> shortProduct(int64_t outputs, int64_t taps);

/// Weights [results, channels, taps...] as [points..., channels, results]; a form for each axis.
std::vector<float> transformWeights(const float*, int64_t results, int64_t channels,
                                    const std::vector<ShortProduct>&);

}  // namespace tektite
