#include <algorithm>

#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

struct Pool {
  Windows windows;
  std::vector<int> axes;     // of the windows view: the kernel's
  std::vector<Expr> result;  // shape without them
};

Pool poolOf(const Builder& b, const OpCall& c, Value x) {
  Pool p{windowsOf(b, c, x, c.integers("kernel_shape")), {}, b.type(x).shape};
  const int n = static_cast<int>(p.windows.kernel.size());
  p.axes = axisRange(b.rank(x), b.rank(x) + n);
  for (int i = 0; i < n; i++)
    p.result[p.result.size() - static_cast<size_t>(n - i)] = p.windows.out[static_cast<size_t>(i)];
  return p;
}

Value windowsIn(Builder& b, Value x, const Windows& w, Expr fill) {
  return b.windows(x, w.kernel, w.strides, w.dilations, w.before, w.out, fill);
}

/// For each element of the windows its place in the input, flattened; column-major over the last axes where asked.
Value places(Builder& b, const Value x, const Pool& p, Value windows, bool columnMajor) {
  const auto& shape = b.type(x).shape;
  const int rank = b.rank(x), n = static_cast<int>(p.windows.kernel.size());
  Expr outer = 0, inner = 0;
  for (int i = 0; i < rank - n; i++)
    outer = outer * shape[static_cast<size_t>(i)] + var(coordinate(i));
  const auto at = [&](int i) {
    const auto k = static_cast<size_t>(i);
    return var(coordinate(rank - n + i)) * p.windows.strides[k] +
           var(coordinate(rank + i)) * p.windows.dilations[k] - p.windows.before[k];
  };
  Expr size = 1;
  for (int j = 0; j < n; j++) {
    const int i = columnMajor ? n - 1 - j : j;
    inner = inner * shape[static_cast<size_t>(rank - n + i)] + at(i);
    size = size * shape[static_cast<size_t>(rank - n + i)];
  }
  return b.map(outer * size + inner, {}, b.type(windows).shape);
}

const OpDef maxPool{"MaxPool", Takes{"n3+"}, [](Builder& b, const OpCall& c) -> Values {
                      const Value x = c.at(0);
                      const Pool p = poolOf(b, c, x);
                      const Value in = windowsIn(b, x, p.windows, lowestOf(b.dtype(x)));
                      if (c.outputs < 2) return b.reshape(b.reduce("max", in, p.axes), p.result);
                      const Value index = places(b, x, p, in, c.integer("storage_order", 0) != 0);
                      const auto both = b.reduce(argCombine(true, b.dtype(x)), {in, index}, p.axes);
                      return {b.reshape(both.at(0), p.result), b.reshape(both.at(1), p.result)};
                    }};

/// How many of a window's elements along one axis lie in [-before, extent + after), as an expression of the output's coordinate.
Expr countAlong(const Windows& w, size_t i, Expr extent, Expr at, bool padded) {
  const int64_t k = w.kernel[i], d = w.dilations[i];
  const Expr start = at * w.strides[i] - w.before[i];
  const Expr low = padded ? Expr(-w.before[i]) : Expr(0),
             high = padded ? extent + w.after[i] : extent;
  const auto reached = [&](Expr bound) {
    return min(max(floorDiv(bound - start + (d - 1), d), 0), k);
  };  // elements below the bound
  return reached(high) - reached(low);
}

const OpDef averagePool{
    "AveragePool", Takes{"F3+"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = b.dtype(x);
      const Pool p = poolOf(b, c, x);
      const bool padded = c.integer("count_include_pad", 0) != 0;
      const Value sum =
          b.reshape(b.reduce("sum", windowsIn(b, x, p.windows, imm(t, 0)), p.axes), p.result);
      const size_t n = p.windows.kernel.size(), first = p.result.size() - n;
      Ranges ranges = b.graph.ranges();
      Expr count = 1;
      for (size_t i = 0; i < n; i++) {
        const std::string name = coordinate(static_cast<int>(first + i));
        ranges[name] = {0, boundsOf(p.result[first + i], ranges).high - 1};
        count = count *
                simplify(countAlong(p.windows, i, b.type(x).shape.at(first + i), var(name), padded),
                         ranges);
      }
      const auto constant = asInteger(count);
      return b.map(
          var("$0", t) / (constant ? imm(t, static_cast<double>(*constant)) : cast(t, count)),
          {sum});
    }};

const OpDef lpPool{"LpPool", Takes{"F3+"}, [](Builder& b, const OpCall& c) -> Values {
                     const Value x = c.at(0);
                     const Pool p = poolOf(b, c, x);
                     const std::string power = number(static_cast<double>(c.integer("p", 2)));
                     const Value powers = b.map(fmt::format("pow(abs(a), {})", power),
                                                {windowsIn(b, x, p.windows, imm(b.dtype(x), 0))});
                     return b.map(fmt::format("pow(a, 1 / {})", power),
                                  {b.reshape(b.reduce("sum", powers, p.axes), p.result)});
                   }};

}  // namespace
}  // namespace tektite
