#include <cmath>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// The Fourier matrix [frequency, time, part in, part out] of which `x` holds real (and imaginary) parts on its last axis.
Value fourier(Builder& b, DType t, Expr length, Expr frequencies, Expr times, Expr parts,
              bool inverse) {
  const Expr k = var("d0"), n = var("d1"), in = var("d2"), out = var("d3");
  const Expr turns = cast(DType::F64, floorMod(k * n, length)) / cast(DType::F64, length);
  const Expr angle = turns * imm(DType::F64, (inverse ? 2 : -2) * 3.141592653589793);
  const Expr cosine = apply(Op::Cos, {angle}), sine = apply(Op::Sin, {angle});
  Expr value = select(eq(in, out), cosine, select(eq(in, 0), sine, apply(Op::Neg, {sine})));
  if (inverse) value = value / cast(DType::F64, length);
  return b.map(cast(t, value), {}, {frequencies, times, parts, 2});
}

/// x [rows, time, parts] -> [rows, frequency, 2]
Value transformed(Builder& b, Value x, Expr length, bool inverse, bool onesided) {
  const auto s = b.type(x).shape;
  const Expr frequencies = onesided ? simplified(b, floorDiv(length, 2) + 1) : length;
  return contracted(b, "rnp,knpq->rkq", x,
                    fourier(b, b.dtype(x), length, frequencies, s.at(1), s.at(2), inverse));
}

/// The real signal [rows, length, 1] of half a spectrum [rows, frequency, 2]: all but the first and the middle frequency count twice.
Value realOfHalf(Builder& b, Value x, Expr length) {
  const DType t = b.dtype(x), f = DType::F64;
  const Expr n = var("d0"), k = var("d1"), part = var("d2");
  const Expr angle =
      cast(f, floorMod(k * n, length)) / cast(f, length) * imm(f, 2 * 3.141592653589793);
  const Expr once = apply(Op::Or, {eq(k, 0), eq(k * 2, length)});
  const Expr value =
      select(eq(part, 0), apply(Op::Cos, {angle}), apply(Op::Neg, {apply(Op::Sin, {angle})})) *
      select(once, imm(f, 1), imm(f, 2)) / cast(f, length);
  const Value matrix = b.map(cast(t, value), {}, {length, b.type(x).shape.at(1), 2, 1});
  return contracted(b, "rkp,nkpq->rnq", x, matrix);
}

/// Cut or filled with zeros to `length` on axis 1.
Value fitted(Builder& b, Value x, Expr length) {
  auto shape = b.type(x).shape;
  if (shape.at(1) == length) return x;
  shape.at(1) = length;
  return b.view(x, shape, coordinates(static_cast<int>(shape.size())), imm(b.dtype(x), 0));
}

Values dft(Builder& b, const OpCall& c) {
  const Value x = c.at(0);
  const int rank = b.rank(x);
  const int64_t given = c.opset >= 20
                            ? (c.has(2) ? onlyOf(needIntegers(b, c.at(2), "the axis")) : -2)
                            : c.integer("axis", 1);
  const int axis = axisOf(given, rank);
  std::vector<int> order = axisRange(0, rank), back(static_cast<size_t>(rank));
  order.erase(order.begin() + axis);
  order.insert(order.end() - 1, axis);
  for (int i = 0; i < rank; i++) back[static_cast<size_t>(order[static_cast<size_t>(i)])] = i;
  const Value moved = b.transpose(x, order);
  auto shape = b.type(moved).shape;
  const Expr rows = productOf({shape.begin(), shape.end() - 2}), time = shape[shape.size() - 2],
             parts = shape.back();
  const bool inverse = c.integer("inverse", 0), onesided = c.integer("onesided", 0),
             half = inverse && onesided;
  const Expr length = c.has(1) ? onlyOf(needKnown(b, c.at(1), "the length"))
                      : half   ? simplified(b, (time - 1) * 2)
                               : time;
  const Value in = fitted(b, b.reshape(moved, {rows, time, parts}),
                          half ? simplified(b, floorDiv(length, 2) + 1) : length);
  const Value y = half ? realOfHalf(b, in, length) : transformed(b, in, length, inverse, onesided);
  shape[shape.size() - 2] = b.type(y).shape.at(1);
  shape.back() = half ? 1 : 2;
  return b.transpose(b.reshape(y, shape), back);
}
const OpDef dftOp{"DFT", Takes{"f2+ i i"}, dft, 17};

const OpDef stft{
    "STFT", Takes{"f2-3 i f1 i"}, [](Builder& b, const OpCall& c) -> Values {
      Value x = c.at(0);
      const DType t = b.dtype(x);
      if (b.rank(x) == 2) x = unsqueeze(b, x, {2});
      const auto s = b.type(x).shape;
      const int64_t step = onlyOf(needIntegers(b, c.at(1), "the frame step"));
      const int64_t length = c.has(3)
                                 ? onlyOf(needIntegers(b, c.at(3), "the frame length"))
                                 : needStatic(b.type(c.at(2)).shape.at(0), "the window's length");
      if (step < 1 || length < 1) userError("frames of {} each {}", length, step);
      const Expr frames = simplified(b, floorDiv(s.at(1) - length, step) + 1);
      const Value parts = b.transpose(x, {0, 2, 1});
      Value in = b.windows(parts, {length}, {step}, {1}, {0}, {frames},
                           imm(t, 0));  // [batch, parts, frames, length]
      if (c.has(2)) in = b.map("a * b", {in, c.at(2)});
      in = b.reshape(b.transpose(in, {0, 2, 3, 1}), {s.at(0) * frames, length, s.at(2)});
      const Value y = transformed(b, in, length, false, c.integer("onesided", 1) != 0);
      return b.reshape(y, {s.at(0), frames, b.type(y).shape.at(1), 2});
    }};

/// Triangles between points that lie evenly on the mel scale: [spectrum bins, mel bins].
const OpDef mel{
    "MelWeightMatrix", Takes{"i i i n n"}, [](Builder& b, const OpCall& c) -> Values {
      const auto bins = static_cast<int64_t>(needScalar(b, c.at(0), "the number of bins")),
                 length = static_cast<int64_t>(needScalar(b, c.at(1), "the length"));
      const double rate = needScalar(b, c.at(2), "the sample rate"),
                   low = needScalar(b, c.at(3), "the lower edge"),
                   high = needScalar(b, c.at(4), "the upper edge");
      const DType t = dtypeOfNumber(c.integer("output_datatype", 1)), f = DType::F64;
      const auto melOf = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
      const double from = melOf(low),
                   step = (melOf(high) - melOf(low)) / static_cast<double>(bins + 2);
      const Expr bin = var("d0"), column = var("d1");
      const auto edge = [&](int64_t offset) {  // the spectrum's bin of a point
        const Expr m = cast(f, column + offset) * imm(f, step) + imm(f, from);
        const Expr hertz =
            (apply(Op::Exp, {m * imm(f, std::log(10.) / 2595)}) - imm(f, 1)) * imm(f, 700);
        return cast(DType::I64,
                    apply(Op::Floor, {hertz * imm(f, static_cast<double>(length + 1) / rate)}));
      };
      const Expr left = edge(0), centre = edge(1), right = edge(2), one = imm(f, 1);
      const Expr rising =
          select(eq(left, centre), one, cast(f, bin - left) / cast(f, centre - left));
      const Expr falling = cast(f, right - bin) / cast(f, right - centre);
      const Expr up = logicalAnd(le(left, bin), le(bin, centre)),
                 down = logicalAnd(lt(centre, bin), lt(bin, right));
      return b.map(cast(t, select(up, rising, select(down, falling, imm(f, 0)))), {},
                   {length / 2 + 1, bins});
    }};

}  // namespace
}  // namespace tektite
