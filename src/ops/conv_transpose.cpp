#include <algorithm>

#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

// The gradient of a convolution. Where the stride is s, the results o = q s + p of each of the s phases p are a convolution of the input
// around q: input q + d meets the kernel's element p + pad - s d.
namespace tektite {
namespace {

int64_t floorOf(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/// The phases of one axis: p = run * inner + b. All of a run meet the inputs q + first + run + t, for t below `taps`; what of these lies
/// outside of the kernel has weight 0. Two runs where the windows of one half of the phases lie one further on, else one.
struct Phases {
  int64_t stride, dilation, kernel, pad, runs, inner, first, taps;

  Phases(int64_t stride, int64_t dilation, int64_t kernel, int64_t pad)
      : stride(stride), dilation(dilation), kernel(kernel), pad(pad), runs(1), inner(stride) {
    const int64_t reach = (kernel - 1) * dilation + 1, least = pad - reach + stride;
    first = floorOf(least, stride);
    taps = floorOf(stride - 1 + pad, stride) - first + 1;
    if (stride == 1) taps = kernel;
    if (2 * (least - first * stride) != stride) return;
    runs = 2;
    inner = stride / 2;
    taps = std::max(floorOf(inner - 1 + pad, stride), floorOf(stride - 1 + pad, stride) - 1) -
           first + 1;
  }
  int64_t step() const { return stride == 1 ? dilation : 1; }  ///< from tap to tap, in inputs
};

struct Transposed {
  Value x, w;
  int64_t groups, channels, outs;  ///< channels and outs of a group
  std::vector<Phases> axes;
  std::vector<Expr> out;

  int64_t inner() const {
    int64_t n = 1;
    for (const Phases& p : axes) n *= p.inner;
    return n;
  }
  Expr steps(const Builder& b, size_t i) const {  ///< as many q
    return simplified(b, floorDiv(out[i] + (axes[i].stride - 1), axes[i].stride));
  }
};

/// [batch, groups, channels, q..., runs..., taps...] of the input.
Value windowsOf(Builder& b, const Transposed& c) {
  const size_t n = c.axes.size();
  std::vector<Expr> split = {b.type(c.x).shape[0], c.groups, c.channels};
  std::vector<int64_t> kernel, dilations, before, after;
  std::vector<Expr> out;
  for (size_t i = 0; i < n; i++) {
    split.push_back(b.type(c.x).shape[i + 2]);
    kernel.push_back(c.axes[i].taps + c.axes[i].runs - 1);
    dilations.push_back(c.axes[i].step());
    before.push_back(-c.axes[i].first);
    out.push_back(c.steps(b, i));
    after.push_back(out[i] == split.back() ? 0 : 1);
  }
  const Value all = b.windows(b.reshape(c.x, split), kernel, std::vector<int64_t>(n, 1), dilations,
                              before, out, imm(b.dtype(c.x), 0));
  std::vector<Expr> shape(split.begin(), split.begin() + 3), index = coordinates(3);
  const auto at = [](size_t d) { return var(coordinate(static_cast<int>(d))); };
  for (size_t i = 0; i < n; i++) {
    shape.push_back(out[i]);
    index.push_back(at(3 + i));
  }
  for (const Phases& p : c.axes) shape.emplace_back(p.runs);
  for (size_t i = 0; i < n; i++) {
    shape.emplace_back(c.axes[i].taps);
    index.push_back(at(3 + n + i) + at(3 + 2 * n + i));
  }
  return b.view(all, shape, index);
}

/// [groups, outs * inner phases, channels, runs..., taps...] of the weight [groups * channels, outs, kernel...].
Value weightOf(Builder& b, const Transposed& c) {
  const size_t n = c.axes.size();
  const int64_t inner = c.inner();
  const auto at = [](size_t d) { return var(coordinate(static_cast<int>(d))); };
  std::vector<Expr> shape = {c.groups, c.outs * inner, c.channels},
                    index = {at(0) * Expr(c.channels) + at(2), floorDiv(at(1), inner)};
  for (const Phases& p : c.axes) shape.emplace_back(p.runs);
  for (const Phases& p : c.axes) shape.emplace_back(p.taps);
  Ranges ranges;
  for (size_t d = 0; d < shape.size(); d++)
    ranges[coordinate(static_cast<int>(d))] = {0, *asInteger(shape[d]) - 1};
  Expr guard = boolean(true);
  int64_t later = inner;
  for (size_t i = 0; i < n; i++) {
    const Phases& p = c.axes[i];
    later /= p.inner;
    const Expr run = at(3 + i), tap = at(3 + n + i);
    if (p.stride == 1) {
      index.push_back(Expr(p.kernel - 1) - tap);
      continue;
    }
    const Expr phase = run * Expr(p.inner) + floorMod(floorDiv(at(1), later), p.inner);
    const Expr place = phase + Expr(p.pad) - (tap + run + Expr(p.first)) * Expr(p.stride);
    index.push_back(simplify(floorDiv(place, p.dilation), ranges));
    for (const Expr& e :
         {eq(floorMod(place, p.dilation), 0), le(0, place), lt(place, p.kernel * p.dilation)})
      guard = logicalAnd(guard, simplify(e, ranges));
  }
  return asInteger(guard) ? b.view(c.w, shape, index)
                          : b.view(c.w, shape, index, imm(b.dtype(c.w), 0), guard);
}

/// [batch, groups * outs, out...]
Value resultOf(Builder& b, const Transposed& c) {
  const size_t n = c.axes.size();
  const std::string space = letters('p', n), run = letters('s', n), tap = letters('i', n);
  std::string interleaved;
  for (size_t i = 0; i < n; i++) interleaved += {space[i], run[i]};
  const Value y =
      contracted(b, fmt::format("ngc{}{}{},goc{}{}->ngo{}", space, run, tap, run, tap, interleaved),
                 windowsOf(b, c), weightOf(b, c));
  std::vector<Expr> shape = {b.type(c.x).shape[0], c.groups * c.outs}, places;
  Expr phase = 0;
  for (size_t i = 0; i < n; i++) {
    const Phases& p = c.axes[i];
    const Expr o = var(coordinate(static_cast<int>(i) + 2));
    shape.push_back(c.out[i]);
    places.push_back(floorDiv(o, p.stride));
    places.push_back(floorDiv(floorMod(o, p.stride), p.inner));
    phase = phase * Expr(p.inner) + floorMod(o, p.inner);
  }
  const Expr channel = var("d1");
  std::vector<Expr> from = {var("d0"), floorDiv(channel, c.outs),
                            floorMod(channel, c.outs) * Expr(c.inner()) + phase};
  from.insert(from.end(), places.begin(), places.end());
  return b.view(y, shape, from);
}

const OpDef convTranspose{
    "ConvTranspose", Takes{"f3+ =3+ =1"}, [](Builder& b, const OpCall& call) -> Values {
      const Value x = call.at(0), w = call.at(1);
      checkRanks(b, x, w);
      const auto kernel = kernelOf(b, call, w);
      const size_t n = kernel.size();
      const int64_t groups = call.integer("group", 1);
      const auto strides = listOf(call, "strides", n, 1),
                 dilations = listOf(call, "dilations", n, 1),
                 extra = listOf(call, "output_padding", n, 0);
      auto pads = listOf(call, "pads", 2 * n, 0);
      const std::string mode = call.text("auto_pad", "NOTSET");
      const auto& ws = b.type(w).shape;
      const int64_t channels = needStatic(ws.at(0), "the weight's input channels"),
                    outs = needStatic(ws.at(1), "the weight's output channels");
      if (groups < 1 || channels % groups != 0)
        userError("weight has {} input channels, expected a multiple of {} groups", channels,
                  groups);
      if (const int64_t given = needStatic(b.type(x).shape[1], "the number of channels");
          given != channels)
        userError("weight has {} input channels, found {}", channels, given);
      Transposed c{x, w, groups, channels / groups, outs, {}, {}};
      for (size_t i = 0; i < n; i++) {
        const Expr extent = b.type(x).shape[i + 2];
        const int64_t s = strides[i], reach = (kernel[i] - 1) * dilations[i] + 1;
        if (s < 1 || dilations[i] < 1 || kernel[i] < 1)
          userError("a kernel, stride or dilation is less than 1");
        if (call.given("output_shape") || mode.starts_with("SAME")) {
          const int64_t in = needStatic(extent, "an extent");
          const auto wanted = call.integers("output_shape", std::vector<int64_t>{});
          const int64_t want = wanted.empty() ? in * s : wanted.at(wanted.size() - n + i);
          const int64_t total = std::max<int64_t>(0, s * (in - 1) + extra[i] + reach - want);
          pads[i] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
          pads[n + i] = total - pads[i];
          c.out.emplace_back(want);
        } else {
          c.out.push_back(
              simplified(b, (extent - 1) * s + (extra[i] + reach - pads[i] - pads[n + i])));
        }
        c.axes.emplace_back(s, dilations[i], kernel[i], pads[i]);
      }
      const Value y = resultOf(b, c);
      return call.has(2) ? b.map("a + b", {y, alongAxis(b, call.at(2), 1, b.rank(y))}) : y;
    }};

}  // namespace
}  // namespace tektite
