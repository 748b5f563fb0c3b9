#include "runtime/compare.h"

#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "support/check.h"

namespace tektite {
namespace {

std::vector<int64_t> coordinatesOf(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; flat /= shape[axis]) at[axis] = flat % shape[axis];
  return at;
}

double difference(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

Comparison compareIntegers(const Array& found, const Array& expected) {
  Comparison c;
  for (int64_t i = 0, n = found.elements(); i < n; ++i) {
    const int64_t a = loadInteger(found.type, found.data(), i),
                  b = loadInteger(found.type, expected.data(), i);
    if (a == b) continue;
    c.maxAbs = std::max(c.maxAbs, std::fabs(static_cast<double>(a) - static_cast<double>(b)));
    c.maxRel = std::max(c.maxRel,
                        b ? std::fabs(static_cast<double>(a) / static_cast<double>(b) - 1) : 0.0);
    if (c.ok)
      c.problem = fmt::format("[{}]: {} found, expected {}",
                              fmt::join(coordinatesOf(i, found.shape), ", "), a, b);
    c.ok = false;
  }
  return c;
}

Comparison compareFloats(const Array& found, const Array& expected, const Tolerance& tolerance) {
  Comparison c;
  double largest = 0;
  const int64_t n = found.elements();
  for (int64_t i = 0; tolerance.ofLargest && i < n; ++i) {
    const double b = std::fabs(loadFloat(found.type, expected.data(), i));
    if (std::isfinite(b)) largest = std::max(largest, b);
  }
  for (int64_t i = 0; i < n; ++i) {
    const double a = loadFloat(found.type, found.data(), i),
                 b = loadFloat(found.type, expected.data(), i);
    const double d = difference(a, b);
    const double scale = tolerance.ofLargest ? largest : std::isfinite(b) ? std::fabs(b) : 0;
    const double allowed = tolerance.ofLargest ? *tolerance.ofLargest * largest
                                               : tolerance.absolute + tolerance.relative * scale;
    c.maxAbs = std::max(c.maxAbs, d);
    if (scale > 0)
      c.maxRel = std::max(c.maxRel, d / scale);
    else if (d > 0 && tolerance.ofLargest)
      c.maxRel = std::numeric_limits<double>::infinity();
    if (d <= allowed) continue;
    if (c.ok)
      c.problem = fmt::format("[{}]: {} found, expected {}",
                              fmt::join(coordinatesOf(i, found.shape), ", "), a, b);
    c.ok = false;
  }
  return c;
}

}  // namespace

Comparison compare(const Array& found, const Array& expected, const Tolerance& tolerance) {
  if (found.type != expected.type || found.shape != expected.shape) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {false, kInfinity, kInfinity,
            fmt::format("{} found, expected {}", shapeText(found.type, found.shape),
                        shapeText(expected.type, expected.shape))};
  }
  return isFloat(found.type) ? compareFloats(found, expected, tolerance)
                             : compareIntegers(found, expected);
}

}  // namespace tektite
