#include <numeric>

#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

DType signedOf(int width) {
  return width == 8 ? DType::I8 : width == 16 ? DType::I16 : width == 32 ? DType::I32 : DType::I64;
}

/// The same bits as another type of the same width.
const OpDef bitCast{"BitCast", [](Builder& b, const OpCall& c) -> Values {
                      Value x = c.at(0);
                      const DType from = b.dtype(x), to = dtypeOfNumber(c.integer("to"));
                      if (from == DType::Bool || to == DType::Bool) return b.convert(x, to);
                      if (bits(from) != bits(to))
                        userError("{} has {} bits and {} {}, expected as many", name(from),
                                  bits(from), name(to), bits(to));
                      if (isFloat(from)) x = b.map("bits(a)", {x});
                      x = b.convert(x, signedOf(bits(to)));
                      if (!isFloat(to)) return b.convert(x, to);
                      return b.map(apply(Op::FromBits, {var("$0", b.dtype(x))}), {x},
                                   b.type(x).shape);
                    }};

/// The sum of overlapping blocks: each place of the image gathers from the blocks that cover it.
const OpDef col2im{
    "Col2Im", Takes{"N3 i1 i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = b.dtype(x);
      const auto image = needIntegers(b, c.at(1), "the image's shape"),
                 block = needIntegers(b, c.at(2), "the block's shape");
      const size_t n = image.size();
      const auto strides = listOf(c, "strides", n, 1), dilations = listOf(c, "dilations", n, 1),
                 pads = listOf(c, "pads", 2 * n, 0);
      const auto s = b.type(x).shape;
      if (block.size() != n) userError("a block over {} axes of {}", block.size(), n);
      int64_t kernel = 1;
      for (size_t i = 0; i < n; i++) {
        constexpr int64_t kMost = 1 << 20;
        if (block[i] < 1 || block[i] > kMost || image[i] < 0 || kernel * block[i] > kMost)
          userError("a block of {} in an image of {}", block[i], image[i]);
        kernel *= block[i];
      }
      const Expr channels = simplified(b, floorDiv(s.at(1), kernel));
      std::vector<Expr> split = {s.at(0), channels}, wide = {s.at(0), channels},
                        index = {var("d0"), var("d1")}, counts;
      std::vector<Expr> positions;
      Expr guard = boolean(true);
      for (size_t i = 0; i < n; i++) {
        const int64_t count =
            (image[i] + pads[i] + pads[n + i] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1;
        const Expr at = var(coordinate(2 + static_cast<int>(i))),
                   k = var(coordinate(2 + static_cast<int>(n + i)));
        const Expr from = at + pads[i] - k * dilations[i];
        index.push_back(k);
        positions.push_back(floorDiv(from, strides[i]));
        guard = logicalAnd(guard, eq(floorMod(from, strides[i]), 0));
        split.push_back(block[i]);
        counts.push_back(count);
        wide.push_back(image[i]);
      }
      for (const int64_t k : block) wide.push_back(k);
      split.insert(split.end(), counts.begin(), counts.end());
      index.insert(index.end(), positions.begin(), positions.end());
      const Value blocks = b.view(b.reshape(x, split), wide, index, imm(t, 0), guard);
      const std::vector<int> axes = axisRange(2 + static_cast<int>(n), 2 + 2 * static_cast<int>(n));
      return squeeze(b, b.reduce("sum", blocks, axes), axes);
    }};

/// Scatters pooled values back to the places they came from.
const OpDef maxUnpool{
    "MaxUnpool", Takes{"n3+ i3+ i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), places = c.at(1);
      const auto s = b.type(x).shape;
      const auto kernel = c.integers("kernel_shape");
      const size_t n = kernel.size();
      if (n + 2 != s.size()) userError("a kernel over {} axes for {}", n, toText(b.type(x)));
      const auto strides = listOf(c, "strides", n, 1), pads = listOf(c, "pads", 2 * n, 0);
      std::vector<Expr> pooled = s;
      for (size_t i = 0; i < n; i++) {
        const size_t at = s.size() - n + i;
        pooled[at] = simplified(b, (s[at] - 1) * strides[i] + (kernel[i] - pads[i] - pads[n + i]));
      }
      // Places count within the smallest image that pools to this; a larger one is that one with room behind.
      const Value base = b.splat(b.dtype(x), 0, {productOf(pooled)});
      const Value flat = b.reshape(x, {productOf(s)}), index = b.reshape(places, {productOf(s)});
      const Value image = b.reshape(
          b.update(base, {index}, flat, {indexLoad(b, 1, index, {var("d0")})}, ""), pooled);
      if (!c.has(2)) return image;
      return b.view(image, needKnown(b, c.at(2), "the shape"),
                    coordinates(static_cast<int>(s.size())), imm(b.dtype(x), 0));
    }};

/// By the first row's minors.
Value determinant(Builder& b, const std::vector<std::vector<Value>>& m) {
  if (m.size() == 1) return m.at(0)[0];
  Value sum;
  for (size_t j = 0; j < m.size(); j++) {
    std::vector<std::vector<Value>> minor;
    for (size_t i = 1; i < m.size(); i++) {
      minor.emplace_back();
      for (size_t k = 0; k < m.size(); k++)
        if (k != j) minor.back().push_back(m[i][k]);
    }
    const Value d = determinant(b, minor);
    sum = !sum ? b.map("a * b", {m.at(0)[j], d})
               : b.map(j % 2 ? "a - b * c" : "a + b * c", {sum, m.at(0)[j], d});
  }
  return sum;
}
const OpDef det{"Det", Takes{"f2+"}, [](Builder& b, const OpCall& c) -> Values {
                  const Value x = c.at(0);
                  const auto s = b.type(x).shape;
                  const int rank = b.rank(x);
                  const int64_t n = needStatic(lastExtent(b, x), "the size of the matrix");
                  if (n < 1 || n > 4) userError("matrices of {} rows, 1 to 4 are supported", n);
                  if (rank < 2 || !(s.at(s.size() - 2) == s.back()))
                    userError("an input of shape {}, expected square matrices", toText(b.type(x)));
                  std::vector<std::vector<Value>> m(static_cast<size_t>(n));
                  for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < n; j++) {
                      std::vector<Expr> starts(s.size(), 0), sizes = s;
                      starts[s.size() - 2] = i;
                      starts[s.size() - 1] = j;
                      sizes[s.size() - 2] = sizes[s.size() - 1] = 1;
                      m[static_cast<size_t>(i)].push_back(
                          squeeze(b, b.slice(x, starts, sizes, std::vector<int64_t>(s.size(), 1)),
                                  {rank - 2, rank - 1}));
                    }
                  return determinant(b, m);
                }};

}  // namespace
}  // namespace tektite
