#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Linear models and what stands before and after them, of ai.onnx.ml.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

Value vectorOf(Builder& b, const std::vector<double>& values) {
  return constantOf(b, DType::F32, values, {static_cast<int64_t>(values.size())});
}
Value floats(Builder& b, Value x) { return b.convert(x, DType::F32); }

const OpDef scaler{"Scaler", Takes{"n1-2"},
                   [](Builder& b, const OpCall& c) -> Values {
                     const Value offset = vectorOf(b, c.reals("offset")),
                                 scale = vectorOf(b, c.reals("scale"));
                     return b.map("(a - b) * c", {floats(b, c.at(0)), offset, scale});
                   },
                   1, kDomain};

const OpDef normalizer{"Normalizer", Takes{"n1-2"},
                       [](Builder& b, const OpCall& c) -> Values {
                         const std::string norm = c.text("norm", "MAX");
                         const Value x = floats(b, c.at(0));
                         const std::vector<int> last = {b.rank(x) - 1};
                         Value by;
                         if (norm == "MAX")
                           by = b.reduce("max", b.map("abs(a)", {x}), last);
                         else if (norm == "L1")
                           by = b.reduce("sum", b.map("abs(a)", {x}), last);
                         else if (norm == "L2")
                           by = b.map("sqrt(a)", {b.reduce("sum", b.map("a * a", {x}), last)});
                         else
                           userError("attribute 'norm' is '{}', expected MAX, L1 or L2", norm);
                         return b.map("select(b == 0, a, a / b)", {x, by});
                       },
                       1, kDomain};

const OpDef binarizer{"Binarizer", Takes{"n"},
                      [](Builder& b, const OpCall& c) -> Values {
                        return b.map(
                            fmt::format("select({} < a, 1, a * 0)", number(c.real("threshold", 0))),
                            {c.at(0)});
                      },
                      1, kDomain};

const OpDef imputer{"Imputer", Takes{"n"},
                    [](Builder& b, const OpCall& c) -> Values {
                      const Value values = vectorOf(b, c.reals("imputed_value_floats"));
                      const double replaced = c.real("replaced_value_float", 0);
                      return b.map(replaced != replaced
                                       ? std::string("select(isnan(a), b, a)")
                                       : fmt::format("select(a == {}, b, a)", number(replaced)),
                                   {c.at(0), values});
                    },
                    1, kDomain};

const OpDef features{"ArrayFeatureExtractor", Takes{"*1+ i"},
                     [](Builder& b, const OpCall& c) -> Values {
                       const Value x = c.at(0),
                                   which = b.reshape(c.at(1), {productOf(b.type(c.at(1)).shape)});
                       auto shape = b.type(x).shape, index = coordinates(b.rank(x));
                       shape.back() = b.type(which).shape.at(0);
                       index.back() = indexLoad(b, 1, which, {index.back()});
                       return b.gather(x, {which}, shape, index, imm(b.dtype(x), 0));
                     },
                     1, kDomain};

Value linear(Builder& b, const OpCall& c, int64_t targets) {
  const Value x = floats(b, c.at(0));
  auto coefficients = c.reals("coefficients");
  const int64_t width = needStatic(lastExtent(b, x), "the number of features");
  const auto given = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || width < 1 || targets > given / width)
    userError("{} coefficients, expected {} times {}", given, targets, width);
  coefficients.resize(static_cast<size_t>(targets * width));  // some files have more than are read
  Value y = b.contract("ni,ti->nt", x, constantOf(b, DType::F32, coefficients, {targets, width}));
  if (c.given("intercepts")) y = b.map("a + b", {y, vectorOf(b, c.reals("intercepts"))});
  return y;
}

Value transformed(Builder& b, Value y, const std::string& how) {
  if (how == "NONE") return y;
  if (how == "LOGISTIC") return b.map("sigmoid(a)", {y});
  if (how != "SOFTMAX")
    userError("attribute 'post_transform' is '{}', expected NONE, LOGISTIC or SOFTMAX", how);
  const Value e = b.map("exp(a - b)", {y, b.reduce("max", y, {1})});
  return b.map("a / b", {e, b.reduce("sum", e, {1})});
}

const OpDef regressor{"LinearRegressor", Takes{"n1-2"},
                      [](Builder& b, const OpCall& c) -> Values {
                        return transformed(b, linear(b, c, c.integer("targets", 1)),
                                           c.text("post_transform", "NONE"));
                      },
                      1, kDomain};

const OpDef classifier{
    "LinearClassifier", Takes{"n1-2"},
    [](Builder& b, const OpCall& c) -> Values {
      const auto labels = labelsOf(c, "classlabels_ints");
      const auto classes = static_cast<int64_t>(labels.size());
      const auto rows =
          c.given("intercepts") ? static_cast<int64_t>(c.reals("intercepts").size()) : classes;
      Value y = linear(b, c, rows);
      const std::string how = c.text("post_transform", "NONE");
      if (rows == 1 && classes == 2) {  // one score: the second class's
        const Value second = transformed(b, y, how);
        y = b.concat({b.map(how == "NONE" ? "-a" : "1 - a", {second}), second}, 1);
      } else {
        y = transformed(b, y, how);
      }
      return {labelOf(b, y, labels), y};
    },
    1, kDomain};

/// A map from each label to its value is, as a tensor, its values.
const OpDef zipMap{"ZipMap", [](Builder&, const OpCall& c) -> Values { return c.at(0); }, 1,
                   kDomain};

}  // namespace
}  // namespace tektite
