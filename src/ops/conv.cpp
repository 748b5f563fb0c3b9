#include <algorithm>

#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {

constexpr int64_t kMostReach = int64_t{1}
                               << 30;  // of kernels, strides and pads: no index overflows

std::vector<int64_t> listOf(const OpCall& c, std::string_view attribute, size_t size,
                            int64_t otherwise) {
  auto list = c.integers(attribute, std::vector<int64_t>(size, otherwise));
  if (list.empty()) list.assign(size, otherwise);
  if (list.size() != size)
    userError("attribute '{}' has {} numbers, expected {}", attribute, list.size(), size);
  for (const int64_t n : list)
    if (n < (otherwise == 1 ? 1 : -kMostReach) || n > kMostReach)
      userError("attribute '{}' has a {}, expected {} to {}", attribute, n,
                otherwise == 1 ? 1 : -kMostReach, kMostReach);
  return list;
}

namespace {

bool allAre(const std::vector<int64_t>& list, int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == value; });
}

}  // namespace

std::string letters(char from, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; i++) out += static_cast<char>(from + i);
  return out;
}

Windows windowsOf(const Builder& b, const OpCall& c, Value x, std::vector<int64_t> kernel) {
  const size_t n = kernel.size();
  if (static_cast<size_t>(b.rank(x)) < n + 1)
    userError("rank {} is too low for a kernel over {} axes", b.rank(x), n);
  Windows w{kernel, listOf(c, "strides", n, 1), listOf(c, "dilations", n, 1), {}, {}, {}};
  const auto pads = listOf(c, "pads", 2 * n, 0);
  w.before.assign(pads.begin(), pads.begin() + static_cast<long>(n));
  w.after.assign(pads.begin() + static_cast<long>(n), pads.end());
  const std::string mode = c.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    userError("attribute 'auto_pad' is '{}', expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
              mode);
  const bool up = c.integer("ceil_mode", 0) != 0;
  for (size_t i = 0; i < n; i++) {
    if (kernel[i] < 1 || kernel[i] > kMostReach)
      userError("a kernel has extent {}, expected 1 to {}", kernel[i], kMostReach);
    const Expr extent = b.type(x).shape.at(static_cast<size_t>(b.rank(x)) - n + i);
    const int64_t reach = (kernel[i] - 1) * w.dilations[i] + 1, s = w.strides[i];
    if (mode == "VALID") w.before[i] = w.after[i] = 0;
    if (mode.starts_with("SAME")) {
      const int64_t size = needStatic(extent, "an extent padded by auto_pad");
      const int64_t total = std::max<int64_t>(0, ((size + s - 1) / s - 1) * s + reach - size);
      w.before[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.after[i] = total - w.before[i];
      w.out.push_back((size + s - 1) / s);
      continue;
    }
    Expr room = simplified(b, extent + (w.before[i] + w.after[i] - reach));
    if (const auto r = asInteger(room); r && *r < 0 && !(up && *r + s > 0))
      userError("a kernel that reaches over {} is larger than the padded extent {}", reach,
                *r + reach);
    Expr out = floorDiv(up ? room + (s - 1) : room, s) + 1;
    if (const auto o = asInteger(simplified(b, out)), size = asInteger(extent);
        up && o && size && (*o - 1) * s >= *size + w.before[i])
      out = *o - 1;  // no window starts in the padding behind
    w.out.push_back(simplified(b, out));
  }
  return w;
}

Value convolution(Builder& b, Value x, Value w, const Windows& g, int64_t groups,
                  std::optional<DType> accumulator, Expr fill) {
  const size_t n = g.kernel.size();
  if (static_cast<size_t>(b.rank(x)) != n + 2 || b.rank(w) != b.rank(x))
    userError("input and weight have ranks {} and {}, expected {}", b.rank(x), b.rank(w), n + 2);
  const auto& ws = b.type(w).shape;
  const auto shape = b.type(x).shape;
  const int64_t perGroup = needStatic(ws.at(1), "the weight's input channels"),
                outs = needStatic(ws.at(0), "the weight's output channels");
  const int64_t channels = needStatic(shape.at(1), "the number of channels");
  if (groups < 1 || channels != perGroup * groups)
    userError("weight has {} input channels in {} groups, expected {}", perGroup, groups, channels);
  if (outs % groups != 0)
    userError("weight has {} output channels, expected a multiple of {} groups", outs, groups);

  // A pointwise kernel needs no windows, and axes of extent 1 no labels.
  const bool pointwise = allAre(g.kernel, 1) && allAre(g.before, 0) && allAre(g.after, 0);
  const bool manyGroups = groups > 1, manyIn = perGroup > 1 || !manyGroups,
             manyOut = outs > groups || !manyGroups;
  Value in = x;
  if (manyGroups && manyIn) {
    std::vector<Expr> split = {shape.at(0), groups, perGroup};
    split.insert(split.end(), shape.begin() + 2, shape.end());
    in = b.reshape(in, split);
  }
  const auto last = static_cast<size_t>(b.rank(in)) - n;
  if (!pointwise) {
    in = b.windows(in, g.kernel, g.strides, g.dilations, g.before, g.out, fill);
  } else if (!allAre(g.strides, 1)) {
    auto sizes = b.type(in).shape;
    std::vector<int64_t> steps(sizes.size(), 1);
    for (size_t i = 0; i < n; i++) {
      sizes[last + i] = g.out[i];
      steps[last + i] = g.strides[i];
    }
    in = b.slice(in, std::vector<Expr>(sizes.size(), 0), sizes, steps);
  }
  std::vector<Expr> weight;
  if (manyGroups) weight.push_back(groups);
  if (manyOut) weight.push_back(outs / groups);
  if (manyIn) weight.push_back(perGroup);
  if (!pointwise) weight.insert(weight.end(), ws.begin() + 2, ws.end());
  const std::string space = letters('p', n), window = pointwise ? "" : letters('i', n);
  const std::string group = manyGroups ? "g" : "", inner = manyIn ? "c" : "",
                    outer = manyOut ? "o" : "";
  const Value y = b.contract(fmt::format("n{}{}{}{},{}{}{}{}->n{}{}{}", group, inner, space, window,
                                         group, outer, inner, window, group, outer, space),
                             in, b.reshape(w, weight), accumulator);
  std::vector<Expr> result = {shape.at(0), outs};
  result.insert(result.end(), g.out.begin(), g.out.end());
  return b.reshape(y, result);
}

std::vector<int64_t> kernelOf(const Builder& b, const OpCall& c, Value w) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < b.rank(w); i++)
    kernel.push_back(needStatic(b.type(w).shape.at(static_cast<size_t>(i)), "the weight's kernel"));
  if (c.given("kernel_shape") && c.integers("kernel_shape") != kernel)
    userError("attribute 'kernel_shape' is [{}], the weight's kernel [{}]",
              fmt::join(c.integers("kernel_shape"), ", "), fmt::join(kernel, ", "));
  return kernel;
}

void checkRanks(const Builder& b, Value x, Value w) {
  if (b.rank(x) < 3 || b.rank(w) != b.rank(x))
    userError("input and weight have ranks {} and {}, expected the same, at least 3", b.rank(x),
              b.rank(w));
}

namespace {

const OpDef conv{
    "Conv", Takes{"f3+ =3+ =1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), w = c.at(1);
      checkRanks(b, x, w);
      const DType t = b.dtype(x);
      const Windows g = windowsOf(b, c, x, kernelOf(b, c, w));
      const Value y =
          b.convert(convolution(b, x, w, g, c.integer("group", 1), accumulatorOf(t), imm(t, 0)), t);
      return c.has(2) ? b.map("a + b", {y, alongAxis(b, c.at(2), 1, b.rank(y))}) : y;
    }};

}  // namespace
}  // namespace tektite
