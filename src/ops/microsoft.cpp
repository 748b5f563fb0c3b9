#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Operators of onnxruntime's own domain, that its optimiser and quantiser write into models.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "com.microsoft";

Value built(Builder& b, const OpCall& c, std::string op, std::vector<Value> in) {
  OpCall call = c;
  call.op = std::move(op);
  call.in = std::move(in);
  call.opset = 17;
  call.outputs = 1;
  return buildOp(b, call).at(0);
}

Value activated(Builder& b, const OpCall& c, Value y) {
  const std::string name = c.text("activation", "");
  if (name.empty()) return y;
  const auto parameters = c.reals("activation_params", std::vector<double>{});
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
                        Value y = built(b, c, "Conv", in);
                        if (c.has(3)) y = b.map("a + b", {y, c.at(3)});
                        return activated(b, c, y);
                      },
                      1, kDomain};

const OpDef fusedGemm{"FusedGemm",
                      [](Builder& b, const OpCall& c) -> Values {
                        return activated(b, c, built(b, c, "Gemm", c.in));
                      },
                      1, kDomain};

const OpDef gelu{"Gelu", "0.5 * a * (1 + erf(a * 0.7071067811865476))", 1, kDomain};
const OpDef biasGelu{"BiasGelu", "0.5 * (a + b) * (1 + erf((a + b) * 0.7071067811865476))", 1,
                     kDomain};
const OpDef fastGelu{
    "FastGelu",
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.has(1) ? b.map("a + b", {c.at(0), c.at(1)}) : c.at(0);
      return b.map("0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))", {x});
    },
    1, kDomain};
const OpDef quickGelu{
    "QuickGelu",
    [](Builder& b, const OpCall& c) -> Values {
      return b.map(fmt::format("a * sigmoid(a * {})", number(c.real("alpha", 1.702))), {c.at(0)});
    },
    1, kDomain};

}  // namespace
}  // namespace tektite
