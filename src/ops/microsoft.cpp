#include "ops/microsoft.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Operators of onnxruntime's own domain, that its optimiser and quantiser write into models.
namespace tektite {

Value built(Builder& b, std::string op, std::vector<Value> in,
            std::map<std::string, Attribute> attributes, int opset) {
  OpCall call{std::move(op), std::move(in)};
  call.opset = opset;
  call.attributes = std::move(attributes);
  return buildOp(b, call).at(0);
}

namespace {

Value activated(Builder& b, const OpCall& c, Value y) {
  const std::string name = c.text("activation", "");
  if (name.empty()) return y;
  auto parameters = c.reals("activation_params", std::vector<double>{});
  for (const char* one : {"activation_alpha", "activation_beta"})
    if (c.given(one)) parameters.push_back(c.real(one));
  OpCall call{name, {y}};
  call.opset = 6;
  const auto set = [&](size_t i, const char* attribute) {
    if (i < parameters.size()) call.attributes[attribute] = parameters[i];
  };
  set(0, name == "Clip" ? "min" : "alpha");
  set(1, name == "Clip" ? "max" : "beta");
  return buildOp(b, call).at(0);
}

const OpDef fusedConv{"FusedConv",
                      [](Builder& b, const OpCall& c) -> Values {
                        std::vector<Value> in = {c.at(0), c.at(1)};
                        if (c.has(2)) in.push_back(c.at(2));
                        Value y = built(b, "Conv", in, c.attributes);
                        if (c.has(3)) y = b.map("a + b", {y, c.at(3)});
                        return activated(b, c, y);
                      },
                      1, kMicrosoft};

const OpDef fusedGemm{"FusedGemm",
                      [](Builder& b, const OpCall& c) -> Values {
                        return activated(b, c, built(b, "Gemm", c.in, c.attributes));
                      },
                      1, kMicrosoft};

const OpDef gelu{"Gelu", Takes{"F"}, "0.5 * a * (1 + erf(a * 0.7071067811865476))", 1, kMicrosoft};
const OpDef biasGelu{"BiasGelu", Takes{"F F"},
                     "0.5 * (a + b) * (1 + erf((a + b) * 0.7071067811865476))", 1, kMicrosoft};
const OpDef fastGelu{
    "FastGelu", Takes{"F F"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.has(1) ? b.map("a + b", {c.at(0), c.at(1)}) : c.at(0);
      return b.map("0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))", {x});
    },
    1, kMicrosoft};
const OpDef quickGelu{
    "QuickGelu", Takes{"F"},
    [](Builder& b, const OpCall& c) -> Values {
      return b.map(fmt::format("a * sigmoid(a * {})", number(c.real("alpha", 1.702))), {c.at(0)});
    },
    1, kMicrosoft};

/// Transposed where asked, also with the matrix's batch axis first; scaled.
Value fusedProduct(Builder& b, const OpCall& c) {
  const auto operand = [&](size_t i, const char* transposed, const char* batch) {
    const Value v = c.at(i);
    const int rank = b.rank(v);
    std::vector<int> order = axisRange(0, rank);
    if (rank > 2 && c.integer(batch, 0))
      std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
    if (rank > 1 && c.integer(transposed, 0))
      std::swap(order[order.size() - 1], order[order.size() - 2]);
    return order == axisRange(0, rank) ? v : b.transpose(v, order);
  };
  const Value y = built(b, "MatMul",
                        {operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB")});
  const double alpha = c.real("alpha", 1);
  return alpha == 1 ? y : b.map(fmt::format("a * {}", number(alpha)), {y});
}
const OpDef fusedMatMul{"FusedMatMul",
                        [](Builder& b, const OpCall& c) -> Values { return fusedProduct(b, c); }, 1,
                        kMicrosoft};
const OpDef transposeMatMul{
    "TransposeMatMul", [](Builder& b, const OpCall& c) -> Values { return fusedProduct(b, c); }, 1,
    kMicrosoft};
const OpDef fusedMatMulActivation{"FusedMatMulActivation",
                                  [](Builder& b, const OpCall& c) -> Values {
                                    OpCall call = c;
                                    call.attributes["activation"] = c.text("activation");
                                    return activated(b, call, fusedProduct(b, c));
                                  },
                                  1, kMicrosoft};

const OpDef biasAdd{"BiasAdd", "a + b + c", 1, kMicrosoft};
const OpDef biasSoftmax{
    "BiasSoftmax", Takes{"F F"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int axis = axisOf(c.integer("axis", 1), b.rank(x));
      Value bias = c.at(1);
      if (c.integer("is_inner_broadcast", 1) && b.rank(bias) < b.rank(x) && axis < b.rank(bias))
        bias = unsqueeze(b, bias, axisRange(axis, axis + b.rank(x) - b.rank(bias)));
      return built(b, "Softmax", {b.map("a + b", {x, bias})}, {{"axis", int64_t{axis}}}, 11);
    },
    1, kMicrosoft};

/// What stands here under another domain's name as ONNX defines it.
const OpDef trilu{
    "Trilu",
    [](Builder& b, const OpCall& c) -> Values { return built(b, "Trilu", c.in, c.attributes); }, 1,
    kMicrosoft};
const OpDef gridSample{"GridSample",
                       [](Builder& b, const OpCall& c) -> Values {
                         return built(b, "GridSample", c.in, c.attributes, 16);
                       },
                       1, kMicrosoft};
const OpDef gatherNd{
    "GatherND",
    [](Builder& b, const OpCall& c) -> Values { return built(b, "GatherND", c.in, c.attributes); },
    1, kMicrosoft};
const OpDef range{"Range",
                  [](Builder& b, const OpCall& c) -> Values {
                    std::vector<Value> in = c.in;
                    if (!c.has(2)) {
                      in.resize(3);
                      in.at(2) = b.splat(b.dtype(c.at(0)), 1);
                    }
                    return built(b, "Range", in, c.attributes);
                  },
                  1, kMicrosoft};
const OpDef expandDims{"ExpandDims",
                       [](Builder& b, const OpCall& c) -> Values {
                         const int64_t axis = onlyOf(needIntegers(b, c.at(1), "the axis"));
                         return unsqueeze(b, c.at(0), {axisOf(axis, b.rank(c.at(0)) + 1)});
                       },
                       1, kMicrosoft};

}  // namespace
}  // namespace tektite
