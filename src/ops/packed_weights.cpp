#include "ops/microsoft.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Fields of `bits` bits of the bytes along the last axis, the lowest first, as i32.
Value unpacked(Builder& b, Value bytes, int64_t bits, Expr count) {
  auto shape = b.type(bytes).shape, index = coordinates(b.rank(bytes));
  shape.back() = std::move(count);
  const int64_t each = 8 / bits;
  const Expr last = index.back();
  index.back() = floorDiv(last, each);
  const Value wide = b.view(b.convert(bytes, DType::I32), shape, index);
  if (each == 1) return wide;
  const Expr shift = cast(DType::I32, floorMod(last, each) * bits);
  return b.map(apply(Op::And, {apply(Op::Shr, {var("$0", DType::I32), shift}),
                               immInteger(DType::I32, (int64_t{1} << bits) - 1)}),
               {wide});
}

/// Weights of few bits in blocks along a row, a scale and a zero point a block; y = x W^T + bias.
const OpDef matMul{
    "MatMulNBits", Takes{"f1+ i =1-3 *1-3 i1 =1"},
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: x, packed [rows, blocks, bytes], scales, zero points (packed, or real), order of groups, bias
      const int64_t width = c.integer("K"), rows = c.integer("N"), bits = c.integer("bits", 4),
                    block = c.integer("block_size");
      if (bits != 2 && bits != 4 && bits != 8)
        userError("attribute 'bits' is {}, expected 2, 4 or 8", bits);
      if (block < 1 || width < 1 || rows < 1)
        userError("a block of {} in {} x {}", block, rows, width);
      const int64_t blocks = (width + block - 1) / block, bytes = (block * bits + 7) / 8;
      const DType t = b.dtype(c.at(0));
      const auto spread = [&](Value v) {  // [rows, blocks] to every weight
        if (c.has(4))                     // which block each column belongs to
          return b.gather(v, {c.at(4)}, {rows, width},
                          {var("d0"), indexLoad(b, 1, c.at(4), {var("d1")})}, imm(b.dtype(v), 0));
        return b.view(v, {rows, width}, {var("d0"), floorDiv(var("d1"), block)});
      };
      const Value codes =
          b.view(unpacked(b, b.reshape(c.at(1), {rows, blocks, bytes}), bits, block), {rows, width},
                 {var("d0"), floorDiv(var("d1"), block), floorMod(var("d1"), block)});
      Value zero = b.splat(t, static_cast<double>(int64_t{1} << (bits - 1)));
      if (c.has(3) && isFloat(b.dtype(c.at(3)))) {
        zero = spread(b.reshape(c.at(3), {rows, blocks}));
      } else if (c.has(3)) {
        const Value packed = b.reshape(c.at(3), {rows, (blocks * bits + 7) / 8});
        zero = b.convert(spread(unpacked(b, packed, bits, blocks)), t);
      }
      const Value w = b.map(
          "(a - b) * c", {b.convert(codes, t), zero, spread(b.reshape(c.at(2), {rows, blocks}))});
      const Value y = b.convert(product(b, c.at(0), b.transpose(w, {1, 0}), accumulatorOf(t)), t);
      return c.has(5) ? b.map("a + b", {y, c.at(5)}) : y;
    },
    1, kMicrosoft};

}  // namespace
}  // namespace tektite
