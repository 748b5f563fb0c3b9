#include "passes/short_products.h"

#include <algorithm>

namespace tektite {
namespace {

constexpr double kPoints[] = {0, 1, -1, 2, -2};

/// The coefficients, low powers first, of the product of x - p over the points but one (-1: none is left out).
std::vector<double> productOf(int64_t count, int64_t without) {
  std::vector<double> c = {1};
  for (int64_t l = 0; l < count; l++) {
    if (l == without) continue;
    c.push_back(0);
    for (size_t i = c.size() - 1; i > 0; i--) c[i] = c[i - 1] - kPoints[l] * c[i];
    c[0] *= -kPoints[l];
  }
  return c;
}

double valueAt(const std::vector<double>& c, double x) {
  double v = 0;
  for (size_t i = c.size(); i-- > 0;) v = v * x + c[i];
  return v;
}

}  // namespace

std::optional<ShortProduct> shortProduct(int64_t outputs, int64_t taps) {
  ShortProduct p{outputs, taps, {}, {}, {}};
  const int64_t n = p.points(), finite = n - 1;
  if (outputs < 2 || taps < 2 || finite > static_cast<int64_t>(std::size(kPoints))) return {};
  p.output.assign(static_cast<size_t>(outputs * n), 0);
  p.weight.assign(static_cast<size_t>(n * taps), 0);
  p.input.assign(static_cast<size_t>(n * n), 0);
  for (int64_t j = 0; j < finite; j++) {
    const std::vector<double> others = productOf(finite, j);
    const double scale = valueAt(others, kPoints[j]);
    double power = 1;
    for (int64_t k = 0; k < std::max(outputs, taps); k++, power *= kPoints[j]) {
      if (k < outputs) p.output[static_cast<size_t>(k * n + j)] = static_cast<float>(power);
      if (k < taps) p.weight[static_cast<size_t>(j * taps + k)] = static_cast<float>(power / scale);
    }
    for (size_t i = 0; i < others.size(); i++)
      p.input[static_cast<size_t>(j * n) + i] = static_cast<float>(others[i]);
  }
  p.output[static_cast<size_t>(outputs * n) - 1] = 1;
  p.weight[static_cast<size_t>(n * taps) - 1] = 1;
  const std::vector<double> all = productOf(finite, -1);
  for (size_t i = 0; i < all.size(); i++)
    p.input[static_cast<size_t>(finite * n) + i] = static_cast<float>(all[i]);
  return p;
}

std::vector<float> transformWeights(const float* w, int64_t results, int64_t channels,
                                    const std::vector<ShortProduct>& forms) {
  int64_t taps = 1, points = 1;
  for (const ShortProduct& f : forms) taps *= f.taps, points *= f.points();
  // The matrices of all axes as one, [points x taps].
  std::vector<float> matrix = {1};
  int64_t rows = 1, columns = 1;
  for (const ShortProduct& f : forms) {
    std::vector<float> next;
    for (int64_t r = 0; r < rows; r++)
      for (int64_t p = 0; p < f.points(); p++)
        for (int64_t c = 0; c < columns; c++)
          for (int64_t t = 0; t < f.taps; t++)
            next.push_back(matrix[static_cast<size_t>(r * columns + c)] *
                           f.weight[static_cast<size_t>(p * f.taps + t)]);
    matrix = std::move(next);
    rows *= f.points();
    columns *= f.taps;
  }
  std::vector<float> row(static_cast<size_t>(taps * results));  // of a channel: taps x results
  std::vector<float> out(static_cast<size_t>(points * channels * results));
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t o = 0; o < results; o++)
      for (int64_t t = 0; t < taps; t++)
        row[static_cast<size_t>(t * results + o)] = w[(o * channels + c) * taps + t];
    for (int64_t p = 0; p < points; p++) {
      float* to = out.data() + (p * channels + c) * results;
      for (int64_t t = 0; t < taps; t++) {
        const float m = matrix[static_cast<size_t>(p * taps + t)];
        if (m == 0) continue;
        const float* from = row.data() + t * results;
        for (int64_t o = 0; o < results; o++) to[o] += m * from[o];
      }
    }
  }
  return out;
}

}  // namespace tektite
