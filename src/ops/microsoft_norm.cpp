#include "ops/microsoft.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Normalisations of onnxruntime's transformer optimiser.
namespace tektite {
namespace {

/// By the root of the mean square of the last axis.
Value rootNormalized(Builder& b, Value x, Value scale, const OpCall& c, double epsilon) {
  return built(b, "RMSNormalization", {x, scale},
               {{"axis", c.integer("axis", -1)}, {"epsilon", c.real("epsilon", epsilon)}});
}

Values simplified(Builder& b, const OpCall& c) {
  return rootNormalized(b, c.at(0), c.at(1), c, 1e-5);
}
const OpDef simplifiedNorm{"SimplifiedLayerNormalization", simplified};
const OpDef simplifiedNormHere{"SimplifiedLayerNormalization", simplified, 1, kMicrosoft};

Value sumOf(Builder& b, Value x, Value skip, Value bias) {
  const Value y = b.map("a + b", {x, skip});
  return bias ? b.map("a + b", {y, bias}) : y;
}

/// Results: normalised, mean, inverse deviation, the sum that was normalised.
Values normalizedSum(Builder& b, const OpCall& c, Value sum, Value scale, Value bias) {
  OpCall norm{"LayerNormalization", {sum, scale}};
  if (bias) norm.in.push_back(bias);
  norm.outputs = 3;
  norm.attributes["epsilon"] = c.real("epsilon", 1e-12);
  auto out = buildOp(b, norm);
  out.push_back(sum);
  return out;
}

const OpDef skipNorm{"SkipLayerNormalization",
                     [](Builder& b, const OpCall& c) -> Values {
                       const Value sum = sumOf(b, c.at(0), c.at(1), c.optional(4));
                       return normalizedSum(b, c, sum, c.at(2), c.optional(3));
                     },
                     1, kMicrosoft};

const OpDef skipSimplifiedNorm{"SkipSimplifiedLayerNormalization",
                               [](Builder& b, const OpCall& c) -> Values {
                                 const Value sum = sumOf(b, c.at(0), c.at(1), c.optional(3));
                                 const Value y = rootNormalized(b, sum, c.at(2), c, 1e-5);
                                 const Value unused = b.splat(
                                     DType::F32, 0);  // mean and deviation, which nothing computes
                                 return {y, unused, unused, sum};
                               },
                               1, kMicrosoft};

/// Word, position and segment embeddings, added and normalised; then how many keys are open in each row, and the sum.
const OpDef embedNorm{"EmbedLayerNormalization", Takes{"i2 i2 f2 f2 f2 f1 f1 i2 i2"},
                      [](Builder& b, const OpCall& c) -> Values {
                        // inputs: ids, segments, words, positions, segment words, scale, bias, mask, position ids
                        const Value ids = c.at(0);
                        const auto shape = b.type(ids).shape;
                        const auto rows = [&](Value table, Value at) {
                          return built(b, "Gather", {table, at});
                        };
                        Value places = c.optional(8);
                        if (!places) places = b.map(var("d1"), {}, {1, shape.at(1)});
                        Value sum = b.map("a + b", {rows(c.at(2), ids), rows(c.at(3), places)});
                        if (c.has(1)) sum = b.map("a + b", {sum, rows(c.at(4), c.at(1))});
                        const Value y = normalizedSum(b, c, sum, c.at(5), c.at(6)).at(0);
                        const Value open = c.has(7) ? squeeze(b, b.reduce("sum", c.at(7), {1}), {1})
                                                    : b.splat(DType::I32, 0, {shape.at(0)});
                        return {y, open, sum};
                      },
                      1, kMicrosoft};

}  // namespace
}  // namespace tektite
