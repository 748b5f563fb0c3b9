#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Support vector machines, of ai.onnx.ml: kernels of every row with every vector, then products with the coefficients.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

Value vectorOf(Builder& b, const std::vector<double>& values) {
  return constantOf(b, DType::F32, values, {static_cast<int64_t>(values.size())});
}

/// [rows, vectors]: the kernel that `kernel_type` names.
Value kernelOf(Builder& b, const OpCall& c, Value x, Value vectors) {
  const std::string kind = c.text("kernel_type", "LINEAR");
  const auto parameters = c.reals("kernel_params", std::vector<double>{0, 0, 0});
  if (parameters.size() < 3) userError("{} kernel parameters, expected 3", parameters.size());
  const std::string gamma = number(parameters.at(0)), shift = number(parameters.at(1)),
                    degree = number(parameters.at(2));
  if (kind == "RBF") {
    const Value apart =
        b.map("(a - b) * (a - b)", {unsqueeze(b, x, {1}), unsqueeze(b, vectors, {0})});
    return b.map(fmt::format("exp(a * -({}))", gamma),
                 {squeeze(b, b.reduce("sum", apart, {2}), {2})});
  }
  const Value dot = b.contract("ni,vi->nv", x, vectors);
  if (kind == "LINEAR") return dot;
  if (kind == "POLY")
    return b.map(fmt::format("pow(a * {} + {}, {})", gamma, shift, degree), {dot});
  if (kind == "SIGMOID") return b.map(fmt::format("tanh(a * {} + {})", gamma, shift), {dot});
  userError("attribute 'kernel_type' is '{}', expected LINEAR, POLY, RBF or SIGMOID", kind);
}

Value vectorsOf(Builder& b, const OpCall& c, int64_t count, int64_t width) {
  const auto values = c.reals("support_vectors");
  if (static_cast<int64_t>(values.size()) != count * width)
    userError("{} numbers of support vectors, expected {}", values.size(), count * width);
  return constantOf(b, DType::F32, values, {count, width});
}

const OpDef regressor{
    "SVMRegressor", Takes{"n2"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = b.convert(c.at(0), DType::F32);
      const int64_t width = needStatic(b.type(x).shape.at(1), "the number of features"),
                    count = c.integer("n_supports", 0);
      const auto coefficients = c.reals("coefficients"), rho = c.reals("rho");
      if (rho.empty()) userError("attribute 'rho' is empty");
      if (c.text("post_transform", "NONE") != "NONE")
        userError("attribute 'post_transform' is '{}', expected NONE", c.text("post_transform"));
      const Value kernel = count ? kernelOf(b, c, x, vectorsOf(b, c, count, width))
                                 : x;  // no vectors: a linear model
      const int64_t terms = count ? count : width;
      if (static_cast<int64_t>(coefficients.size()) != terms)
        userError("{} coefficients, expected {}", coefficients.size(), terms);
      Value y =
          b.contract("nv,vt->nt", kernel, constantOf(b, DType::F32, coefficients, {terms, 1}));
      y = b.map("a + b", {y, vectorOf(b, {rho.at(0)})});
      return c.integer("one_class", 0) ? b.map("select(0 < a, 1.0, -1.0)", {y}, DType::F32) : y;
    },
    1, kDomain};

/// The vectors of each class: where they begin, how many.
struct Support {
  std::vector<int64_t> starts, counts;
  int64_t total = 0;
};
Support supportOf(const OpCall& c) {
  Support s;
  s.counts = c.integers("vectors_per_class");
  for (const int64_t n : s.counts) {
    if (n < 0) userError("a class has {} support vectors", n);
    s.starts.push_back(s.total);
    s.total += n;
  }
  return s;
}

/// Every class against every later one: the sum of both classes' kernels by their coefficients for the other, [pairs, vectors].
Value pairWeights(Builder& b, const Support& s, const std::vector<double>& coefficients) {
  const auto classes = static_cast<int64_t>(s.counts.size());
  if (static_cast<int64_t>(coefficients.size()) != (classes - 1) * s.total)
    userError("{} coefficients, expected {}", coefficients.size(), (classes - 1) * s.total);
  std::vector<double> weights;
  int64_t pairs = 0;
  for (int64_t i = 0; i < classes; i++)
    for (int64_t j = i + 1; j < classes; j++, pairs++) {
      weights.resize(weights.size() + static_cast<size_t>(s.total), 0);
      const auto give = [&](int64_t of, int64_t row) {
        for (int64_t v = 0; v < s.counts[static_cast<size_t>(of)]; v++) {
          const int64_t at = s.starts[static_cast<size_t>(of)] + v;
          weights[static_cast<size_t>(pairs * s.total + at)] =
              coefficients[static_cast<size_t>(row * s.total + at)];
        }
      };
      give(i, j - 1);
      give(j, i);
    }
  return constantOf(b, DType::F32, weights, {pairs, s.total});
}

/// The class that wins most of its pairs; of equals the first. Votes [rows, classes] of decisions [rows, pairs].
Value votesOf(Builder& b, Value decisions, int64_t classes) {
  std::vector<double> forFirst, forSecond;  // [pairs, classes]
  for (int64_t i = 0; i < classes; i++)
    for (int64_t j = i + 1; j < classes; j++)
      for (int64_t k = 0; k < classes; k++) {
        forFirst.push_back(k == i);
        forSecond.push_back(k == j);
      }
  const int64_t pairs = classes * (classes - 1) / 2;
  const auto table = [&](const std::vector<double>& v) {
    return constantOf(b, DType::F32, v, {pairs, classes});
  };
  const Value won = b.map("select(0 < a, 1.0, 0.0)", {decisions}, DType::F32);
  return b.map("a + b", {b.contract("np,pc->nc", won, table(forFirst)),
                         b.contract("np,pc->nc", b.map("1 - a", {won}), table(forSecond))});
}

/// [rows, classes], of Platt's fit to every pair's decision. They may disagree with the votes, which name the class.
Value probabilitiesOf(Builder& b, const OpCall& c, Value decisions, int64_t classes) {
  const auto slopes = c.reals("prob_a"), offsets = c.reals("prob_b");
  const auto pairs = static_cast<size_t>(classes * (classes - 1) / 2);
  if (slopes.size() != pairs || offsets.size() != pairs)
    userError("{} and {} parameters of probabilities, expected {}", slopes.size(), offsets.size(),
              pairs);
  const Value wins = b.map("min(max(1 / (1 + exp(a * b + c)), 1e-07), 1 - 1e-07)",
                           {decisions, vectorOf(b, slopes), vectorOf(b, offsets)});
  return b.add({.kind = Call{"coupling", {}, {}},
                .operands = {wins},
                .results = {{DType::F32, {b.type(decisions).shape.at(0), classes}}},
                .name = {},
                .origin = b.origin})[0];
}

const OpDef classifier{
    "SVMClassifier", Takes{"n2"},
    [](Builder& b, const OpCall& c) -> Values {
      if (c.text("post_transform", "NONE") != "NONE")
        userError("attribute 'post_transform' is '{}', expected NONE", c.text("post_transform"));
      if (!c.given("vectors_per_class"))
        userError("attribute 'vectors_per_class' is missing, and linear models are not supported");
      const auto labels = labelsOf(c, "classlabels_ints");
      const Value x = b.convert(c.at(0), DType::F32);
      const Support s = supportOf(c);
      const auto classes = static_cast<int64_t>(s.counts.size());
      if (static_cast<int64_t>(labels.size()) != classes || classes < 2)
        userError("{} labels of {} classes", labels.size(), classes);
      const int64_t width = needStatic(b.type(x).shape.at(1), "the number of features");
      const Value kernel = kernelOf(b, c, x, vectorsOf(b, c, s.total, width));
      const auto rho = c.reals("rho");
      if (static_cast<int64_t>(rho.size()) != classes * (classes - 1) / 2)
        userError("{} offsets, expected {}", rho.size(), classes * (classes - 1) / 2);
      const Value decisions = b.map(
          "a + b", {b.contract("nv,pv->np", kernel, pairWeights(b, s, c.reals("coefficients"))),
                    vectorOf(b, rho)});
      const Value votes = votesOf(b, decisions, classes);
      if (c.given("prob_a") && !c.reals("prob_a").empty())
        return {labelOf(b, votes, labels), probabilitiesOf(b, c, decisions, classes)};
      const Value scores =
          classes == 2 ? b.concat({b.map("-a", {decisions}), decisions}, 1) : decisions;
      return {labelOf(b, votes, labels), scores};
    },
    1, kDomain};

}  // namespace
}  // namespace tektite
