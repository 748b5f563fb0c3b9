#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Numbers for categories, of ai.onnx.ml. Categories that are strings have no element type here.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

std::vector<double> doubles(const std::vector<int64_t>& v) { return {v.begin(), v.end()}; }

/// Numbers under `keys_` or `values_`, and their type.
struct Listed {
  std::vector<double> numbers;
  DType type;
};
Listed listed(const OpCall& c, const std::string& what) {
  if (c.given(what + "_int64s")) return {doubles(c.integers(what + "_int64s")), DType::I64};
  if (c.given(what + "_floats")) return {c.reals(what + "_floats"), DType::F32};
  if (c.given(what + "_strings"))
    userError("attribute '{}_strings' is given, expected numbers", what);
  const TensorAttribute& t = c.tensor(what + "_tensor");
  Listed out{{}, t.type.dtype};
  for (int64_t i = 0; i < t.type.elements(); i++)
    out.numbers.push_back(isFloat(t.type.dtype)
                              ? loadFloat(t.type.dtype, t.data->data, i)
                              : static_cast<double>(loadInteger(t.type.dtype, t.data->data, i)));
  return out;
}

/// [.., keys]: is this element that key?
Value matches(Builder& b, Value x, const Listed& keys) {
  const auto n = static_cast<int64_t>(keys.numbers.size());
  const Value each = constantOf(b, b.dtype(x), keys.numbers, {n});
  const std::vector<Value> both = {unsqueeze(b, x, {b.rank(x)}), each};
  return isFloat(b.dtype(x)) ? b.map("a == b | isnan(a) & isnan(b)", both) : b.map("a == b", both);
}

const OpDef encoder{
    "LabelEncoder",
    [](Builder& b, const OpCall& c) -> Values {
      const Listed keys = listed(c, "keys"), values = listed(c, "values");
      if (keys.numbers.size() != values.numbers.size() || keys.numbers.empty())
        userError("{} keys for {} values", keys.numbers.size(), values.numbers.size());
      const Value x = c.at(0);
      const auto n = static_cast<int64_t>(keys.numbers.size());
      const Value same = matches(b, x, keys);
      const int last = b.rank(same) - 1;
      const Value place = squeeze(
          b,
          b.reduce("min",
                   b.map(select(var("$0", DType::Bool), var(coordinate(last)), Expr(n)), {same}),
                   {last}),
          {last});
      std::vector<double> table = values.numbers;
      table.push_back(c.given("default_tensor") ? listed(c, "default").numbers.at(0)
                      : values.type == DType::I64
                          ? static_cast<double>(c.integer("default_int64", -1))
                          : c.real("default_float", 0));
      return b.gather(constantOf(b, values.type, table, {n + 1}), {place}, b.type(place).shape,
                      {load("$1", DType::I64, coordinates(b.rank(place)))}, imm(values.type, 0));
    },
    1, kDomain};

const OpDef oneHot{"OneHotEncoder",
                   [](Builder& b, const OpCall& c) -> Values {
                     if (c.given("cats_strings"))
                       userError("attribute 'cats_strings' is given, expected numbers");
                     return b.convert(matches(b, b.convert(c.at(0), DType::I64),
                                              {doubles(c.integers("cats_int64s")), DType::I64}),
                                      DType::F32);
                   },
                   1, kDomain};

/// Columns side by side.
const OpDef features{"FeatureVectorizer", Takes{"n1-2..."},
                     [](Builder& b, const OpCall& c) -> Values {
                       std::vector<Value> parts;
                       for (size_t i = 0; i < c.in.size(); i++) {
                         const Value x = b.convert(c.at(i), DType::F32);
                         parts.push_back(b.rank(x) == 1 ? unsqueeze(b, x, {1}) : x);
                       }
                       if (parts.empty()) userError("nothing to join");
                       return b.concat(parts, 1);
                     },
                     1, kDomain};

}  // namespace
}  // namespace tektite
