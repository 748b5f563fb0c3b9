#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLongest = 1 << 26;  // an axis: its places and weights are tables

/// How one axis is resampled: for each place of the output the first of `taps` neighbours and their weights.
struct Axis {
  int axis;
  int64_t in, out;
  double scale;
  double roiStart = 0, roiEnd = 1;
  int64_t taps = 1;
  std::vector<int64_t> first;
  std::vector<double> weights;  // [out, taps]
  std::vector<bool> outside;    // extrapolated
};

double sourceOf(const Axis& a, int64_t at, const std::string& mode) {
  const double x = static_cast<double>(at), in = static_cast<double>(a.in),
               out = static_cast<double>(a.out), length = a.scale * in;
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "align_corners") return length == 1 ? 0 : x * (in - 1) / (length - 1);
  if (mode == "pytorch_half_pixel" && length == 1) return -0.5;
  if (mode == "half_pixel" || mode == "pytorch_half_pixel") return (x + 0.5) / a.scale - 0.5;
  if (mode == "half_pixel_symmetric")
    return in / 2 * (1 - out / length) + (x + 0.5) / a.scale - 0.5;
  if (mode == "tf_crop_and_resize") {
    const double width = a.roiEnd - a.roiStart;
    return a.roiStart * (in - 1) +
           (length == 1 ? width * (in - 1) / 2 : x * width * (in - 1) / (length - 1));
  }
  userError("attribute 'coordinate_transformation_mode' is '{}'", mode);
}

int64_t nearest(double x, const std::string& mode) {
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (mode == "round_prefer_floor") return static_cast<int64_t>(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  userError("attribute 'nearest_mode' is '{}'", mode);
}

double cubicWeight(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
double linearWeight(double x) { return std::max(0., 1 - std::fabs(x)); }

void fillTaps(Axis& a, const OpCall& c, const std::string& mode,
              const std::string& transformation) {
  const std::string rounding = c.text("nearest_mode", "round_prefer_floor");
  const bool antialias = c.integer("antialias", 0), exclude = c.integer("exclude_outside", 0);
  const double shrink = antialias ? std::min(a.scale, 1.) : 1, reach = mode == "cubic" ? 2 : 1,
               cubicA = c.real("cubic_coeff_a", -0.75);
  const auto before = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
  a.taps = mode == "nearest" ? 1 : 2 - 2 * before;
  for (int64_t i = 0; i < a.out; i++) {
    const double x = sourceOf(a, i, transformation);
    a.outside.push_back(transformation == "tf_crop_and_resize" &&
                        (x < 0 || x > static_cast<double>(a.in) - 1));
    if (mode == "nearest") {
      a.first.push_back(nearest(x, rounding));
      a.weights.push_back(1);
      continue;
    }
    const double base = std::floor(x);
    a.first.push_back(static_cast<int64_t>(base) + before);
    std::vector<double> w;
    for (int64_t k = 0; k < a.taps; k++) {
      const double distance = (static_cast<double>(before + k) - (x - base)) * shrink;
      const int64_t at = a.first.back() + k;
      w.push_back(exclude && (at < 0 || at >= a.in) ? 0
                  : mode == "cubic"                 ? cubicWeight(distance, cubicA)
                                                    : linearWeight(distance));
    }
    const double sum = std::accumulate(w.begin(), w.end(), 0.);
    for (const double v : w) a.weights.push_back((exclude || antialias) && sum != 0 ? v / sum : v);
  }
}

/// The first neighbour of place `d` as (p * d + q) // r, where one of the usual geometries gives just that.
Expr affineFirst(const Axis& a, const Expr& d) {
  const std::array<int64_t, 3> forms[] = {{2 * a.in, a.in - a.out, 2 * a.out},
                                          {2 * a.in, 0, 2 * a.out},
                                          {2 * (a.in - 1), 0, 2 * (a.out - 1)}};
  for (const auto& [p, q, r] : forms) {
    if (r <= 0) continue;
    for (const int64_t shift : {int64_t{0}, r / 2, r / 2 - 1, r - 1}) {
      for (const int64_t offset : {0, -1}) {
        bool fits = true;
        for (int64_t i = 0; fits && i < a.out; i++) {
          const int64_t n = p * i + q + shift;
          fits = (n >= 0 ? n / r : -((-n + r - 1) / r)) + offset == a.first[static_cast<size_t>(i)];
        }
        if (!fits) continue;
        const int64_t g = std::gcd(std::gcd(p, q + shift), r);
        return floorDiv(d * (p / g) + (q + shift) / g, r / g) + offset;
      }
    }
  }
  return {};
}

/// The neighbours on a first axis of their own, so that neighbours in the result are neighbours among the weights, too; weighted and
/// summed. One neighbour: only a view.
Value resample(Builder& b, Value x, const Axis& a, double extrapolated) {
  auto shape = b.type(x).shape;
  const int rank = static_cast<int>(shape.size());
  const auto at = static_cast<size_t>(a.axis);
  const bool many = a.taps > 1;
  auto index = coordinates(rank + (many ? 1 : 0));
  const Expr tap = many ? index[0] : Expr(0);
  if (many) index.erase(index.begin());
  shape[at] = a.out;
  std::vector<Expr> flat(static_cast<size_t>(rank), 1);
  flat[at] = a.out;
  auto wide = shape;
  if (many) wide.insert(wide.begin(), a.taps);
  const Expr first = affineFirst(a, index[at]);
  const auto inside = [&](Expr e) { return min(max(e, 0), a.in - 1); };
  Value y;
  if (first) {
    index[at] = inside(first + tap);
    y = b.view(x, wide, index);
  } else {
    const Value indices = constantOf(b, DType::I64, {a.first.begin(), a.first.end()}, {a.out});
    index[at] = inside(load("$1", DType::I64, {index[at]}) + tap);
    y = b.gather(x, {indices}, wide, index, imm(b.dtype(x), 0));
  }
  if (many) {
    auto weightShape = flat;
    weightShape.insert(weightShape.begin(), a.taps);
    std::vector<double> weights;
    for (int64_t t = 0; t < a.taps; t++)
      for (int64_t i = 0; i < a.out; i++)
        weights.push_back(a.weights[static_cast<size_t>(i * a.taps + t)]);
    const DType t = b.dtype(x), work = isFloat(t) ? accumulatorOf(t) : DType::F32;
    const Value w = constantOf(b, work, weights, weightShape);
    y = b.reduce("sum", b.map("a * b", {b.convert(y, work), w}), {0});
    y = squeeze(b, y, {0});
    if (!isFloat(t)) y = b.map("round(a)", {y});
    y = b.convert(y, t);
  }
  if (std::find(a.outside.begin(), a.outside.end(), true) == a.outside.end()) return y;
  return b.map(select(var("$1", DType::Bool), imm(b.dtype(x), extrapolated), var("$0", b.dtype(x))),
               {y, constantOf(b, DType::Bool, {a.outside.begin(), a.outside.end()}, flat)});
}

Value resized(Builder& b, const OpCall& c, std::vector<Axis> axes,
              const std::string& transformation) {
  Value x = c.at(0);
  std::string mode = c.text("mode", "nearest");
  if (mode == "bilinear") mode = "linear";
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    userError("attribute 'mode' is '{}', expected nearest, linear or cubic", mode);
  for (Axis& a : axes) {
    if (a.in == a.out && std::fabs(a.scale - 1) < 1e-9 && a.roiStart == 0 && a.roiEnd == 1)
      continue;
    if (a.out < 0 || a.out > kLongest)
      userError("axis {} is resized to {}, expected 0 to {}", a.axis, a.out, kLongest);
    fillTaps(a, c, mode, transformation);
    x = resample(b, x, a, c.real("extrapolation_value", 0));
  }
  return x;
}

std::vector<Axis> axesIn(const Builder& b, const OpCall& c, const std::vector<int>& which) {
  std::vector<Axis> out;
  for (const int a : which) {
    const Expr& extent = b.type(c.at(0)).shape.at(static_cast<size_t>(a));
    const auto n = asInteger(extent);
    out.push_back({a, n.value_or(-1), n.value_or(-1), 1});
  }
  return out;
}

/// Axes of a named dim may only keep their size.
void setScales(std::vector<Axis>& axes, const std::vector<double>& scales) {
  if (scales.size() != axes.size()) userError("{} scales for {} axes", scales.size(), axes.size());
  for (size_t i = 0; i < axes.size(); i++) {
    if (scales[i] != 1 && axes[i].in < 0)
      userError("axis {} is scaled, and its extent is not a number", axes[i].axis);
    axes[i].scale = scales[i];
    const double scaled = static_cast<double>(axes[i].in) * scales[i];
    if (!(std::fabs(scaled) <= static_cast<double>(kLongest)))
      userError("axis {} is scaled by {}", axes[i].axis, scales[i]);
    if (axes[i].in >= 0) axes[i].out = static_cast<int64_t>(scaled);
  }
}

void setSizes(const Builder& b, const OpCall& c, std::vector<Axis>& axes,
              const std::vector<Expr>& sizes) {
  if (sizes.size() != axes.size()) userError("{} sizes for {} axes", sizes.size(), axes.size());
  std::vector<double> scales;
  for (size_t i = 0; i < axes.size(); i++) {
    if (sizes[i] == b.type(c.at(0)).shape.at(static_cast<size_t>(axes[i].axis))) continue;
    if (axes[i].in < 0)
      userError("axis {} is resized, and its extent is not a number", axes[i].axis);
    axes[i].out = needStatic(sizes[i], "a size");
    axes[i].scale = static_cast<double>(axes[i].out) / static_cast<double>(axes[i].in);
  }
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch") return;
  for (const Axis& a : axes) scales.push_back(a.scale);
  const double all = policy == "not_larger" ? *std::min_element(scales.begin(), scales.end())
                                            : *std::max_element(scales.begin(), scales.end());
  for (Axis& a : axes) {
    a.scale = all;
    a.out = static_cast<int64_t>(std::floor(all * static_cast<double>(a.in) + 0.5));
  }
}

const OpDef resize{
    "Resize", Takes{"n f1 f1 i1"},
    [](Builder& b, const OpCall& c) -> Values {
      const int rank = b.rank(c.at(0));
      std::vector<int> which = axisRange(0, rank);
      if (c.given("axes")) {
        which.clear();
        for (const int64_t a : c.integers("axes")) which.push_back(axisOf(a, rank));
      }
      auto axes = axesIn(b, c, which);
      const bool sized = c.has(3) && !isConstant(b.type(c.at(3)).shape.at(0), 0);
      if (sized)
        setSizes(b, c, axes, needKnown(b, c.at(3), "the size"));
      else
        setScales(axes, needNumbers(b, c.at(2), "the scales"));
      const std::string transformation = c.text("coordinate_transformation_mode", "half_pixel");
      if (transformation == "tf_crop_and_resize") {
        const auto roi = needNumbers(b, c.at(1), "the regions");
        if (roi.size() != 2 * axes.size())
          userError("{} numbers of a region, expected {}", roi.size(), 2 * axes.size());
        for (size_t i = 0; i < axes.size(); i++) {
          axes[i].roiStart = roi[i];
          axes[i].roiEnd = roi[axes.size() + i];
        }
      }
      return resized(b, c, axes, transformation);
    },
    11};

Values upsample(Builder& b, const OpCall& c) {
  auto axes = axesIn(b, c, axisRange(0, b.rank(c.at(0))));
  setScales(axes, c.has(1) ? needNumbers(b, c.at(1), "the scales") : c.reals("scales"));
  OpCall plain = c;
  plain.attributes["nearest_mode"] = std::string("floor");
  return resized(b, plain, axes, "asymmetric");
}
const OpDef upsampleOp{"Upsample", Takes{"n f1"}, upsample};
const OpDef resize10{"Resize", Takes{"n f1"}, upsample, 10};

}  // namespace
}  // namespace tektite
