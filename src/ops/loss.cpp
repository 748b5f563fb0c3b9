#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// -weight[target] * logarithm[n, target, ...], reduced; a target of `ignore_index` counts nothing.
Value negativeLikelihood(Builder& b, const OpCall& c, Value logs, Value target, Value weight) {
  const DType t = b.dtype(logs);
  const auto shape = b.type(logs).shape;
  auto d = coordinates(b.rank(target));
  const Expr label = indexLoad(b, 1, target, d);
  auto index = d;
  index.insert(index.begin() + 1, label);
  const Value picked = b.gather(logs, {target}, b.type(target).shape, index, imm(t, 0));
  Value w = weight ? b.gather(weight, {target}, b.type(target).shape, {label}, imm(t, 0))
                   : b.splat(t, 1, b.type(target).shape);
  const bool ignoring = c.given("ignore_index");
  if (ignoring)
    w = b.map(select(eq(cast(DType::I64, var("$0", b.dtype(target))), c.integer("ignore_index")),
                     imm(t, 0), var("$1", t)),
              {target, w});
  const Value loss = b.map(ignoring ? "select(b == 0, 0, -a * b)" : "-a * b", {picked, w});
  const std::string reduction = c.text("reduction", "mean");
  const std::vector<int> all = axisRange(0, b.rank(target));
  if (reduction == "none") return loss;
  const Value sum = b.reshape(b.reduce("sum", loss, all), {});
  if (reduction == "sum") return sum;
  if (reduction != "mean")
    userError("attribute 'reduction' is '{}', expected none, sum or mean", reduction);
  return b.map("a / b", {sum, b.reshape(b.reduce("sum", w, all), {})});
}

const OpDef negativeLogLikelihood{
    "NegativeLogLikelihoodLoss", Takes{"F2+ i1+ =1"}, [](Builder& b, const OpCall& c) -> Values {
      return negativeLikelihood(b, c, c.at(0), c.at(1), c.optional(2));
    }};

const OpDef softmaxCrossEntropy{
    "SoftmaxCrossEntropyLoss", Takes{"F2+ i1+ =1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), shifted = b.map("a - b", {x, b.reduce("max", x, {1})});
      const Value logs =
          b.map("a - log(b)", {shifted, b.reduce("sum", b.map("exp(a)", {shifted}), {1})});
      return {negativeLikelihood(b, c, logs, c.at(1), c.optional(2)), logs};
    }};

}  // namespace
}  // namespace tektite
