#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {

/// Batch axes that only one operand has, or that it repeats (extent 1), are labels of the other alone.
Value product(Builder& b, Value x, Value y, std::optional<DType> accumulator) {
  const bool row = b.rank(x) == 1, column = b.rank(y) == 1;
  if (b.rank(x) == 0 || b.rank(y) == 0)
    userError("an operand is a scalar, expected at least rank 1");
  if (row) x = unsqueeze(b, x, {0});
  if (column) y = unsqueeze(b, y, {1});
  const int batch = std::max(b.rank(x), b.rank(y)) - 2;
  if (batch > 20) userError("rank {} is too high", batch + 2);
  std::string left, right, result;
  std::vector<int> dropLeft, dropRight;
  for (int i = 0; i < batch; i++) {
    const char label = static_cast<char>('a' + i);
    const int l = i - (batch + 2 - b.rank(x)), r = i - (batch + 2 - b.rank(y));
    const auto one = [&](Value v, int axis) {
      return isConstant(b.type(v).shape.at(static_cast<size_t>(axis)), 1);
    };
    const bool inLeft = l >= 0 && !(one(x, l) && r >= 0 && !one(y, r)),
               inRight = r >= 0 && !(one(y, r) && inLeft && !one(x, l));
    if (inLeft) left += label;
    if (inRight) right += label;
    if (l >= 0 && !inLeft) dropLeft.push_back(l);
    if (r >= 0 && !inRight) dropRight.push_back(r);
    result += label;
  }
  const Value z = b.contract(left + "xz," + right + "zy->" + result + "xy", squeeze(b, x, dropLeft),
                             squeeze(b, y, dropRight), accumulator);
  std::vector<int> drop;
  if (row) drop.push_back(b.rank(z) - 2);
  if (column) drop.push_back(b.rank(z) - 1);
  return squeeze(b, z, drop);
}

namespace {

const OpDef matMul{"MatMul", Takes{"n1+ n1+"}, [](Builder& b, const OpCall& c) -> Values {
                     const DType t = b.dtype(c.at(0));
                     return b.convert(product(b, c.at(0), c.at(1), accumulatorOf(t)), t);
                   }};

const OpDef gemm{
    "Gemm", Takes{"n2 =2 =0-2"}, [](Builder& b, const OpCall& c) -> Values {
      const DType t = b.dtype(c.at(0));
      const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
      if (b.rank(c.at(0)) != 2 || b.rank(c.at(1)) != 2)
        userError("operands have ranks {} and {}, expected 2", b.rank(c.at(0)), b.rank(c.at(1)));
      const std::string spec = fmt::format("{},{}->xy", c.integer("transA", 0) ? "zx" : "xz",
                                           c.integer("transB", 0) ? "yz" : "zy");
      Value y = contracted(b, spec, c.at(0), c.at(1));
      const bool whole = !isFloat(t);
      const auto scaled = [&](Value v, double by) {
        return by == 1
                   ? v
                   : b.map(fmt::format("a * {}", whole ? fmt::format("{}", static_cast<int64_t>(by))
                                                       : number(by)),
                           {v});
      };
      y = scaled(y, alpha);
      return c.has(2) && beta != 0 ? b.map("a + b", {y, scaled(c.at(2), beta)}) : y;
    }};

}  // namespace
}  // namespace tektite
