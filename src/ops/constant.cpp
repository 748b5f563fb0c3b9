#include <cmath>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

const OpDef constant{"Constant", [](Builder& b, const OpCall& c) -> Values {
                       if (c.given("value"))
                         return b.constant(c.tensor("value").type, c.tensor("value").data);
                       if (c.given("value_float"))
                         return b.splat(DType::F32, c.real("value_float"));
                       if (c.given("value_int")) return b.fromKnown({c.integer("value_int")}, true);
                       if (c.given("value_ints")) return b.integers(c.integers("value_ints"));
                       if (c.given("value_floats")) {
                         const auto values = c.reals("value_floats");
                         return constantOf(b, DType::F32, values,
                                           {static_cast<int64_t>(values.size())});
                       }
                       userError("attribute 'value' is missing");
                     }};

const OpDef constantOfShape{
    "ConstantOfShape", Takes{"i1"}, [](Builder& b, const OpCall& c) -> Values {
      const std::vector<Expr> shape = needKnown(b, c.at(0), "the shape");
      if (!c.given("value")) return b.splat(DType::F32, 0, shape);
      const TensorAttribute& t = c.tensor("value");
      if (t.type.elements() != 1)
        userError("attribute 'value' has {} elements, expected 1", t.type.elements());
      return b.broadcast(b.reshape(b.constant(t.type, t.data), {}), shape);
    }};

/// Start or limit are data: only the number of elements has to be known, from where they count stays open. Its kernel is one for all
/// starts: a loop's counter doesn't name a part for each of its steps.
[[noreturn]] void rangeFrom(Builder& b, const OpCall& c) {
  const DType wide = isFloat(b.dtype(c.at(0))) ? DType::F64 : DType::I64;
  const double delta = needScalar(b, c.at(2), "the delta");
  if (delta == 0) userError("the delta is 0");
  const auto one = [&](size_t i) { return b.reshape(b.convert(c.at(i), wide), {}); };
  const Value start = b.reshape(c.at(0), {});
  const Value length = b.map(delta > 0 ? "b - a" : "a - b", {one(0), one(1)});
  const std::string by = number(std::abs(delta));
  const Value count = b.map(wide == DType::F64 ? fmt::format("max(ceil(a / {0}), 0)", by)
                                               : fmt::format("max((a + ({0} - 1)) // {0}, 0)", by),
                            {length});
  throw NeedValue{b.convert(count, DType::I64),
                  "the number of elements",
                  {start},
                  [delta](Builder& b, Value count, const std::vector<Value>& keep) -> Values {
                    const DType t = b.dtype(keep.at(0));
                    const auto n = onlyOf(needIntegers(b, count, "the number of elements"));
                    return b.map(var("$0", t) + cast(t, var("d0")) * imm(t, delta), keep, {n});
                  }};
}

const OpDef range{
    "Range", Takes{"n n n"}, [](Builder& b, const OpCall& c) -> Values {
      const DType t = b.dtype(c.at(0));
      if (isData(b, c.at(0)) || isData(b, c.at(1))) rangeFrom(b, c);
      if (isFloat(t)) {
        const double start = needScalar(b, c.at(0), "the start"),
                     limit = needScalar(b, c.at(1), "the limit"),
                     delta = needScalar(b, c.at(2), "the delta");
        const auto n = static_cast<int64_t>(std::max(0., std::ceil((limit - start) / delta)));
        return b.map(imm(t, start) + cast(t, var("d0")) * imm(t, delta), {}, {n});
      }
      const auto one = [&](size_t i, const char* what) {
        return onlyOf(needKnown(b, c.at(i), what));
      };
      const Expr start = one(0, "the start"), limit = one(1, "the limit");
      const int64_t delta = needStatic(one(2, "the delta"), "the delta");
      if (delta == 0) userError("the delta is 0");
      const Expr length = delta > 0 ? limit - start + (delta - 1) : start - limit + (-delta - 1);
      const Expr n = simplified(b, max(floorDiv(length, delta > 0 ? delta : -delta), 0));
      if (const auto count = asInteger(n); count && *count <= 64) {
        std::vector<Expr> values;
        for (int64_t i = 0; i < *count; i++) values.push_back(start + i * delta);
        return b.fromKnown(values, false, t);
      }
      return b.map(cast(t, start + var("d0") * delta), {}, {n});
    }};

const OpDef eyeLike{
    "EyeLike", Takes{"*2"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = c.given("dtype") ? dtypeOfNumber(c.integer("dtype")) : b.dtype(x);
      return b.map(cast(t, eq(var("d0") + c.integer("k", 0), var("d1"))), {}, b.type(x).shape);
    }};

const OpDef trilu{
    "Trilu", Takes{"*2+ i"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = b.dtype(x);
      const Expr k = c.has(1) ? Expr(onlyOf(needIntegers(b, c.at(1), "the diagonal"))) : Expr(0);
      const Expr row = var(coordinate(b.rank(x) - 2)) + k, column = var(coordinate(b.rank(x) - 1));
      const Expr kept = c.integer("upper", 1) ? le(row, column) : le(column, row);
      return b.map(
          t == DType::Bool ? logicalAnd(kept, var("$0", t)) : select(kept, var("$0", t), imm(t, 0)),
          {x});
    }};

/// The windows of signal processing, over `n` or, periodic, n of n + 1 points.
Value cosineWindow(Builder& b, const OpCall& c, double a0, double a1, double a2) {
  const DType t = dtypeOfNumber(c.integer("output_datatype", 1));
  const Expr n = onlyOf(needKnown(b, c.at(0), "the size"));
  const Expr points = cast(DType::F32, c.integer("periodic", 1) ? n : n - 1);
  const Value at =
      b.map(cast(DType::F32, var("d0")) * imm(DType::F32, 6.283185307179586) / points, {}, {n});
  return b.convert(
      b.map(fmt::format("{} - {} * cos(a) + {} * cos(2 * a)", number(a0), number(a1), number(a2)),
            {at}),
      t);
}
const OpDef hann{"HannWindow", Takes{"i"}, [](Builder& b, const OpCall& c) -> Values {
                   return cosineWindow(b, c, 0.5, 0.5, 0);
                 }};
const OpDef hamming{"HammingWindow", Takes{"i"}, [](Builder& b, const OpCall& c) -> Values {
                      return cosineWindow(b, c, 25. / 46, 21. / 46, 0);
                    }};
const OpDef blackman{"BlackmanWindow", Takes{"i"}, [](Builder& b, const OpCall& c) -> Values {
                       return cosineWindow(b, c, 0.42, 0.5, 0.08);
                     }};

}  // namespace
}  // namespace tektite
