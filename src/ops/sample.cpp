#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr const char* kLinear = "max(0, 1 - abs(a))";
/// Keys' kernel with -0.75, of a distance.
constexpr const char* kCubic =
    "select(abs(a) <= 1, (1.25 * abs(a) - 2.25) * abs(a) * abs(a) + 1,"
    " select(abs(a) < 2, ((-0.75 * abs(a) + 3.75) * abs(a) - 6) * abs(a) + 3, 0))";

/// A place on [low, high] that a mirror at both ends sends `a` to.
Value reflected(Builder& b, Value x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return b.map(fmt::format("a * 0 + {}", number(low)), {x});
  // the phase of a wave of period 2 range, folded
  const std::string phase =
      fmt::format("(abs(a - ({})) - {} * floor(abs(a - ({})) / {}))", number(low),
                  number(2 * range), number(low), number(2 * range));
  return b.map(fmt::format("{} + min({}, {} - {})", number(low), phase, number(2 * range), phase),
               {x});
}

struct Along {
  Value first;    // i64: the first neighbour, [batch, places...]
  Value weights;  // [batch, 1, places..., taps on its own axis]
};

struct Sampler {
  Builder& b;
  std::string mode, padding;
  bool corners;
  int n;  // spatial axes

  int taps() const { return mode == "nearest" ? 1 : mode == "linear" ? 2 : 4; }
  double low() const { return corners ? 0 : -0.5; }
  double high(int64_t size) const { return static_cast<double>(size) - (corners ? 1 : 0.5); }

  /// From [-1, 1] to places of the tensor, mended by the padding (a cubic's neighbours are mended one by one).
  Value place(Value grid, int64_t size) const {
    const auto s = static_cast<double>(size);
    Value x = corners ? b.map(fmt::format("(a + 1) / 2 * {}", number(s - 1)), {grid})
                      : b.map(fmt::format("((a + 1) * {} - 1) / 2", number(s)), {grid});
    if (mode == "nearest") x = b.map("round(a)", {x});
    if (mode == "cubic") return x;
    if (padding == "border") x = b.map(fmt::format("min(max(a, 0), {})", number(s - 1)), {x});
    if (padding == "reflection") x = reflected(b, x, low(), high(size));
    return x;
  }
  Along along(Value x, int axis) const {
    const DType t = b.dtype(x);
    const Value whole = b.map(mode == "nearest" ? "round(a)" : "floor(a)", {x});
    const Value first = b.map(cast(DType::I64, var("$0", t)) - (mode == "cubic" ? 1 : 0), {whole});
    if (mode == "nearest") return {first, {}};
    auto shape = b.type(x).shape;
    shape.insert(shape.begin() + 1, 1);
    std::vector<Expr> wide = shape;
    for (int i = 0; i < n; i++) {
      shape.push_back(1);
      wide.push_back(i == axis ? taps() : 1);
    }
    const Expr tap = cast(t, var(coordinate(2 + n + axis)) - (mode == "cubic" ? 1 : 0));
    const Value distance = b.map(var("$0", t) - var("$1", t) - tap,
                                 {b.reshape(x, shape), b.reshape(whole, shape)}, wide);
    return {first, b.map(mode == "cubic" ? kCubic : kLinear, {distance})};
  }
  /// A neighbour's index, for padding that reads the edge again.
  Expr mended(Expr at, int64_t size) const {
    if (padding == "border" || (padding == "reflection" && mode != "cubic"))
      return min(max(at, 0), size - 1);
    if (padding != "reflection") return at;
    if (corners) {  // period 2 (size - 1), edges once
      const int64_t period = std::max<int64_t>(1, 2 * (size - 1));
      const Expr phase = floorMod(at, period);
      return min(phase, Expr(2 * (size - 1)) - phase);
    }
    const Expr phase = floorMod(at, 2 * size);  // edges twice
    return min(phase, Expr(2 * size - 1) - phase);
  }
};

const OpDef gridSample{
    "GridSample", Takes{"N3+ f3+"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), grid = c.at(1);
      const auto s = b.type(x).shape, g = b.type(grid).shape;
      std::string mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear");
      if (mode == "bilinear") mode = "linear";
      if (mode == "bicubic") mode = "cubic";
      const Sampler sampler{b, mode, c.text("padding_mode", "zeros"),
                            c.integer("align_corners", 0) != 0, b.rank(x) - 2};
      const int n = sampler.n, rank = 2 + n;
      std::vector<Expr> wide = {s.at(0), s.at(1)}, index = {var("d0"), var("d1")}, at = {var("d0")};
      for (int i = 0; i < n; i++) {
        wide.push_back(g.at(static_cast<size_t>(i) + 1));
        at.push_back(var(coordinate(2 + i)));
      }
      std::vector<Value> firsts, weights;
      const bool many = sampler.taps() > 1;
      for (int i = 0; i < n; i++) {
        const int64_t size = needStatic(s[static_cast<size_t>(i) + 2], "an extent");
        auto starts = std::vector<Expr>(g.size(), 0), sizes = g;
        starts.back() = n - 1 - i;  // the grid's last axis counts x first
        sizes.back() = 1;
        const Value along =
            squeeze(b, b.slice(grid, starts, sizes, std::vector<int64_t>(g.size(), 1)),
                    {static_cast<int>(g.size()) - 1});
        const Along a = sampler.along(sampler.place(along, size), i);
        firsts.push_back(a.first);
        weights.push_back(a.weights);
        if (many) wide.push_back(sampler.taps());
        index.push_back(sampler.mended(
            load(operandName(i + 1), DType::I64, at) + (many ? var(coordinate(rank + i)) : Expr(0)),
            size));
      }
      Value y = b.gather(x, firsts, wide, index, imm(b.dtype(x), 0));
      if (!many) return y;
      for (const Value w : weights) y = b.map("a * b", {y, b.convert(w, b.dtype(x))});
      const std::vector<int> axes = axisRange(rank, rank + n);
      return squeeze(b, b.reduce("sum", y, axes), axes);
    },
    16};

/// theta [batch, n, n + 1] over the homogeneous places of a grid.
const OpDef affineGrid{
    "AffineGrid", Takes{"f3 i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value theta = c.at(0);
      const DType t = b.dtype(theta);
      const auto size = needKnown(b, c.at(1), "the size");
      if (size.size() != 4 && size.size() != 5)
        userError("a size of {} numbers, expected 4 or 5", size.size());
      const int n = static_cast<int>(size.size()) - 2;
      const bool corners = c.integer("align_corners", 0);
      std::vector<Expr> shape(size.begin() + 2, size.end());
      shape.push_back(n + 1);
      Expr value = imm(t, 1);
      for (int i = 0; i < n; i++) {  // x, the last axis, comes first
        const Expr extent = size[static_cast<size_t>(i) + 2], at = cast(t, var(coordinate(i)));
        const Expr place = corners ? at * imm(t, 2) / cast(t, extent - 1) - imm(t, 1)
                                   : (at * imm(t, 2) + imm(t, 1)) / cast(t, extent) - imm(t, 1);
        value = select(eq(var(coordinate(n)), n - 1 - i), place, value);
      }
      const Value grid = b.map(value, {}, shape);
      const std::string space = n == 2 ? "hw" : "dhw";
      return contracted(b, "nij," + space + "j->n" + space + "i", theta, grid);
    }};

}  // namespace
}  // namespace tektite
