#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

// Convolutions and pools that read a tensor at places computed from data, between its elements.
namespace tektite {
namespace {

Value at(Builder& b, Value v, int axis, int64_t index) {
  auto sizes = b.type(v).shape;
  std::vector<Expr> starts(sizes.size(), 0);
  starts[static_cast<size_t>(axis)] = index;
  sizes[static_cast<size_t>(axis)] = 1;
  return squeeze(b, b.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1)), {axis});
}

Value whole(Builder& b, Value x) { return b.convert(b.map("floor(a)", {x}), DType::I64); }
/// Weights of the two neighbours of each place, on a new last axis.
Value neighbours(Builder& b, Value x) {
  const DType t = b.dtype(x);
  const int rank = b.rank(x);
  auto shape = b.type(x).shape;
  shape.push_back(2);
  const Value fraction = unsqueeze(b, b.map("a - floor(a)", {x}), {rank});
  return b.map(select(eq(var(coordinate(rank)), 0), imm(t, 1) - var("$0", t), var("$0", t)),
               {fraction}, shape);
}

/// A convolution whose kernel's elements are each moved by an offset, and weighted by a mask.
const OpDef deformConv{
    "DeformConv", Takes{"F4 =4 =4 =1 =4"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), w = c.at(1), offset = c.at(2);
      const DType t = b.dtype(x);
      if (b.rank(x) != 4) userError("rank {}, expected 4", b.rank(x));
      const auto s = b.type(x).shape, ws = b.type(w).shape, os = b.type(offset).shape;
      const int64_t groups = c.integer("group", 1), offsetGroups = c.integer("offset_group", 1),
                    channels = needStatic(s.at(1), "the number of channels");
      const int64_t outs = needStatic(ws.at(0), "the number of results"),
                    perGroup = needStatic(ws.at(1), "the weight's channels");
      const auto strides = listOf(c, "strides", 2, 1), dilations = listOf(c, "dilations", 2, 1),
                 pads = listOf(c, "pads", 4, 0);
      if (groups < 1 || perGroup * groups != channels || outs % groups || offsetGroups < 1 ||
          channels % offsetGroups)
        userError("{} channels in {} groups of {} and {} of offsets", channels, groups, perGroup,
                  offsetGroups);
      const std::vector<Expr> places = {s.at(0),  offsetGroups, ws.at(2),
                                        ws.at(3), os.at(2),     os.at(3)};
      const Value offsets =
          b.reshape(offset, {s.at(0), offsetGroups, ws.at(2), ws.at(3), 2, os.at(2), os.at(3)});
      Value first[2], weight[2];
      for (int64_t i = 0; i < 2; i++) {
        const auto k = static_cast<size_t>(i);
        const Expr base = var(coordinate(4 + static_cast<int>(i))) * strides[k] +
                          var(coordinate(2 + static_cast<int>(i))) * dilations[k] - pads[k];
        const Value place = b.map(cast(t, base) + var("$0", t), {at(b, offsets, 4, i)});
        first[i] = whole(b, place);
        weight[i] = neighbours(b, place);
      }
      const auto d = coordinates(8);
      const std::vector<Expr> where = {d.at(0), floorDiv(d.at(1), channels / offsetGroups),
                                       d.at(2), d.at(3),
                                       d.at(4), d.at(5)},
                              wide = {s.at(0),  channels, ws.at(2), ws.at(3),
                                      os.at(2), os.at(3), 2,        2};
      const auto spread =
          [&](Value v,
              std::vector<Expr> tail) {  // a value a place and offset group, for each channel
            auto shape = wide;
            shape.at(6) = shape.at(7) = 1;
            auto index = where;
            for (size_t i = 0; i < tail.size(); i++)
              if (tail[i]) index.push_back(tail[i]), shape[6 + i] = 2;
            return b.view(v, shape, index);
          };
      Value v = b.gather(x, {first[0], first[1]}, wide,
                         {d.at(0), d.at(1), load("$1", DType::I64, where) + d.at(6),
                          load("$2", DType::I64, where) + d.at(7)},
                         imm(t, 0));
      v = b.map("a * b * c",
                {v, spread(weight[0], {d.at(6), Expr()}), spread(weight[1], {Expr(), d.at(7)})});
      v = squeeze(b, b.reduce("sum", v, {6, 7}), {6, 7});
      if (c.has(4))
        v = b.map("a * b",
                  {v, squeeze(b, spread(b.reshape(c.at(4), places), {Expr(), Expr()}), {6, 7})});
      v = b.reshape(v, {s.at(0), groups, perGroup, ws.at(2), ws.at(3), os.at(2), os.at(3)});
      const Value product =
          b.contract("ngcijpq,gocij->ngopq", v,
                     b.reshape(w, {groups, outs / groups, perGroup, ws.at(2), ws.at(3)}));
      const Value y = b.reshape(product, {s.at(0), outs, os.at(2), os.at(3)});
      return c.has(3) ? b.map("a + b", {y, alongAxis(b, c.at(3), 1, 4)}) : y;
    },
    19};

/// The mean (or maximum) over a grid of samples in each bin of each region.
const OpDef roiAlign{
    "RoiAlign", Takes{"F4 =2 i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), rois = c.at(1), batch = c.at(2);
      const DType t = b.dtype(x);
      const auto s = b.type(x).shape;
      const Expr regions = b.type(rois).shape.at(0);
      const int64_t bins[] = {c.integer("output_height", 1), c.integer("output_width", 1)},
                    samples = c.integer("sampling_ratio", 0);
      if (samples < 1)
        userError(
            "attribute 'sampling_ratio' is {}: a grid that depends on the regions is not supported",
            samples);
      const std::string mode = c.text("mode", "avg");
      const bool half = c.text("coordinate_transformation_mode",
                               c.opset < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
      const std::string scale = number(c.real("spatial_scale", 1)), shift = half ? "0.5" : "0";
      Value first[2], weight[2];
      for (int i = 0; i < 2; i++) {  // rows, then columns; a region is x1, y1, x2, y2
        const auto edge = [&](int64_t k) {
          return b.map(fmt::format("a * {} - {}", scale, shift), {at(b, rois, 1, k)});
        };
        const Value start = edge(1 - i), end = edge(3 - i);
        const Value length = b.map(half ? "a - b" : "max(a - b, 1)", {end, start});
        const std::vector<Expr> shape = {regions, bins[i], samples};  // a place a bin and sample
        const auto column = [&](Value v) { return b.reshape(v, {regions, 1, 1}); };
        const Expr bin = cast(t, var("d1")), sample = (cast(t, var("d2")) + imm(t, 0.5)) /
                                                      imm(t, static_cast<double>(samples));
        const Expr place =
            var("$0", t) + (bin + sample) * (var("$1", t) / imm(t, static_cast<double>(bins[i])));
        const Value y = b.map(place, {column(start), column(length)}, shape);
        const double size =
            static_cast<double>(needStatic(s[static_cast<size_t>(2 + i)], "an extent"));
        const Value inside = b.map(fmt::format("-1 <= a & a <= {}", number(size)), {y});
        const Value clamped = b.map(fmt::format("min(max(a, 0), {})", number(size - 1)), {y});
        first[i] = whole(b, clamped);
        weight[i] = b.map("select(b, a, 0)", {neighbours(b, clamped), unsqueeze(b, inside, {3})});
      }
      // [regions, channels, rows, columns, row samples, column samples, 2, 2]
      const auto d = coordinates(8);
      const std::vector<Expr> wide = {regions, s.at(1), bins[0], bins[1], samples, samples, 2, 2};
      const Expr row = load("$2", DType::I64, {d.at(0), d.at(2), d.at(4)}),
                 column = load("$3", DType::I64, {d.at(0), d.at(3), d.at(5)});
      Value v = b.gather(
          x, {batch, first[0], first[1]}, wide,
          {indexLoad(b, 1, batch, {d.at(0)}), d.at(1), row + d.at(6), column + d.at(7)}, imm(t, 0));
      const Value rows = b.reshape(weight[0], {regions, 1, bins[0], 1, samples, 1, 2, 1}),
                  columns = b.reshape(weight[1], {regions, 1, 1, bins[1], 1, samples, 1, 2});
      v = b.map("a * b * c", {v, rows, columns});
      if (mode == "max") return squeeze(b, b.reduce("max", v, {4, 5, 6, 7}), {4, 5, 6, 7});
      return squeeze(
          b, b.map(fmt::format("a / {}", samples * samples), {b.reduce("sum", v, {4, 5, 6, 7})}),
          {4, 5, 6, 7});
    }};

}  // namespace
}  // namespace tektite
