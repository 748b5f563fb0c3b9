// Runs tests/ops/*.test: a case is a name, an operator with its attributes, inputs, and what is expected, stored; the numpy expression it was
// computed from stands beside it (tools/op_tests.py computes it). docs: tests/ops/README.md.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "../evaluators.h"
#include "backends/backend.h"
#include "ops/op.h"
#include "support/check.h"
#include "support/lexer.h"

namespace tektite {
namespace {

namespace fs = std::filesystem;

struct OpCase {
  std::string name, domain;
  OpCall call;
  struct Operand {
    TensorAttribute tensor;
    bool constant = false;
  };
  std::vector<std::optional<Operand>> inputs;  // none: omitted
  std::vector<TensorAttribute> expected;
  std::string error;        // or the message that is expected
  double tolerance = 1e-6;  // relative to the larger of 1 and the magnitude
  int line = 0;
};

class OpCaseReader {
 public:
  OpCaseReader(std::string_view text, const std::string& file) : in_(text, file) {}
  std::vector<OpCase> all() {
    std::vector<OpCase> out;
    while (in_.peek().kind != Token::End) out.push_back(one());
    return out;
  }

 private:
  OpCase one() {
    OpCase c;
    c.line = in_.peek().line;
    in_.expect("case");
    c.name = string("the case's name");
    in_.expect("op");
    c.call.op = in_.name("an operator");
    if (const size_t dot = c.call.op.rfind('.'); dot != std::string::npos) {
      c.domain = c.call.op.substr(0, dot);
      c.call.op.erase(0, dot + 1);
    }
    while (in_.peek(1).text == "=") attribute(c.call);
    while (in_.peek().kind != Token::End && !in_.at("case")) line(c);
    return c;
  }
  void line(OpCase& c) {
    if (in_.accept("input")) {
      if (in_.accept("none")) return c.inputs.push_back(std::nullopt);
      const bool constant = in_.accept("const");
      in_.name("an input's name");
      in_.expect(":");
      c.inputs.push_back(OpCase::Operand{tensor(), constant});
    } else if (in_.accept("numpy")) {
      string("an expression");
    } else if (in_.accept("onnxruntime")) {  // computed by it
    } else if (in_.accept("expect")) {
      c.expected.push_back(tensor());
    } else if (in_.accept("error")) {
      c.error = string("a message");
    } else if (in_.accept("tolerance")) {
      c.tolerance = number();
    } else {
      in_.fail("input, numpy, expect, error or tolerance");
    }
  }
  void attribute(OpCall& call) {
    const std::string name = in_.name("an attribute");
    in_.expect("=");
    if (name == "opset")
      call.opset = static_cast<int>(in_.integer("a version"));
    else if (name == "outputs")
      call.outputs = static_cast<int>(in_.integer("a number"));
    else
      call.attributes[name] = value();
  }
  Attribute value() {
    if (in_.peek().kind == Token::String) return std::string(in_.next().text);
    if (const auto type = dtypeFromName(in_.peek().text)) {
      in_.next();
      return listed(*type);
    }
    if (!in_.accept("["))
      return isWhole() ? Attribute(in_.integer("a number")) : Attribute(number());
    if (in_.peek().kind == Token::String) {
      std::vector<std::string> texts;
      while (!in_.accept("]")) {
        texts.push_back(string("a string"));
        in_.accept(",");
      }
      return texts;
    }
    std::vector<int64_t> whole;
    std::vector<double> real;
    bool allWhole = true;
    while (!in_.accept("]")) {
      allWhole = allWhole && isWhole();
      real.push_back(number());
      whole.push_back(static_cast<int64_t>(real.back()));
      in_.accept(",");
    }
    return allWhole ? Attribute(whole) : Attribute(real);
  }
  TensorAttribute listed(DType type) {  // f32[0.5, 1]
    std::vector<double> values;
    for (in_.expect("["); !in_.accept("]"); in_.accept(",")) values.push_back(number());
    const auto n = static_cast<int64_t>(values.size());
    return {{type, {n}}, Tensor::of(type, {n}, values).toConst()};
  }
  bool isWhole() const {
    return in_.peek(in_.at("-")).text.find_first_of(".ein") == std::string_view::npos;
  }
  double number() {
    const double sign = in_.accept("-") ? -1 : 1;
    return sign * std::strtod(std::string(in_.next().text).c_str(), nullptr);
  }
  std::string string(std::string_view what) {
    if (in_.peek().kind != Token::String) in_.fail(what);
    return std::string(in_.next().text);
  }
  TensorAttribute tensor() {
    const auto type = dtypeFromName(in_.name("an element type"));
    if (!type) in_.fail("an element type");
    TensorAttribute t{{*type, {}}, nullptr};
    if (in_.accept("[")) {
      while (!in_.accept("]")) {
        t.type.shape.push_back(in_.integer("an extent"));
        in_.accept("x");
      }
    }
    in_.expect("=");
    std::vector<double> values;
    if (in_.accept("uniform")) {
      in_.expect("(");
      const double low = number();
      in_.expect(",");
      const double high = number();
      in_.expect(")");
      in_.expect("seed");
      values = uniform(low, high, static_cast<uint64_t>(in_.integer("a seed")), t.type.elements());
    } else {
      in_.expect("[");
      while (!in_.accept("]")) {
        values.push_back(number());
        in_.accept(",");
      }
    }
    if (static_cast<int64_t>(values.size()) != t.type.elements())
      in_.fail(fmt::format("{} values before", t.type.elements()));
    t.data = Tensor::of(*type, t.type.extents(), values).toConst();
    return t;
  }
  /// The same numbers as tools/op_tests.py draws: 24 bits of a mixed counter.
  static std::vector<double> uniform(double low, double high, uint64_t seed, int64_t n) {
    std::vector<double> out;
    for (int64_t i = 0; i < n; i++) {
      uint64_t z = (seed << 32) + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15ull;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      out.push_back(low + (high - low) * static_cast<double>((z ^ (z >> 31)) >> 40) / 0x1p24);
    }
    return out;
  }
  Lexer in_;
};

std::string compare(const TensorAttribute& got, const TensorAttribute& expected, double tolerance) {
  if (!(got.type == expected.type))
    return fmt::format("is {}, expected {}", toText(got.type), toText(expected.type));
  for (int64_t i = 0; i < got.type.elements(); i++) {
    const DType t = got.type.dtype;
    const bool real = isFloat(t);
    const double x = real ? loadFloat(t, got.data->data, i)
                          : static_cast<double>(loadInteger(t, got.data->data, i));
    const double y = real ? loadFloat(t, expected.data->data, i)
                          : static_cast<double>(loadInteger(t, expected.data->data, i));
    const bool same = !real || std::isinf(y) ? x == y
                      : std::isnan(y)        ? std::isnan(x)
                                      : std::fabs(x - y) <= tolerance * std::max(1., std::fabs(y));
    if (!same) return fmt::format("element {} is {}, expected {}", i, x, y);
  }
  return "";
}

void runCase(const OpCase& c, const Evaluator& evaluator) {
  Builder b;
  OpCall call = c.call;
  std::vector<TensorAttribute> fed;
  try {
    for (const auto& i : c.inputs) {
      if (!i)
        call.in.push_back({});
      else if (i->constant)
        call.in.push_back(b.constant(i->tensor.type, i->tensor.data));
      else
        call.in.push_back(b.input(fmt::format("in{}", fed.size()), i->tensor.type)),
            fed.push_back(i->tensor);
    }
    b.graph.outputs = buildOp(b, call, c.domain);
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()), c.error);
    return;
  } catch (const NeedValue& need) {
    EXPECT_EQ(need.refusal(), c.error);
    return;
  }
  EXPECT_EQ(c.error, "") << "no error";
  ASSERT_GE(b.graph.outputs.size(), c.expected.size());
  b.graph.outputs.resize(c.expected.size());
  verify(b.graph);
  const auto got = evaluator.run(b.graph, fed);
  for (size_t i = 0; i < c.expected.size(); i++)
    EXPECT_EQ(compare(got.at(i), c.expected[i], c.tolerance), "") << "output " << i;
}

/// Every case, or every `each`th from number `first` on, on one evaluator.
void runAll(const Evaluator& e, int each = 1, int first = 0) {
  ASSERT_LT(first, each);
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(TEKTITE_TESTS) / "ops")) {
    if (entry.path().extension() != ".test") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string owned = text.str(), file = entry.path().filename().string();
    for (const OpCase& c : OpCaseReader(owned, file).all()) {
      SCOPED_TRACE(fmt::format("{}:{}: {}, {}", file, c.line, c.name, e.name));
      if (cases++ % each != first) continue;
      try {
        runCase(c, e);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
  }
  EXPECT_GT(cases, 100);
}

TEST(Ops, Interpreted) { runAll(evaluators().at(0)); }
TEST(Ops, Fused) { runAll(evaluators().at(1)); }
TEST(Ops, Unfused) { runAll(evaluators().at(2)); }

/// TEKTITE_OPENCL_CASES=N runs every Nth case (N,F: from number F on): a device's compiler takes its time for each kernel. Fused and
/// unfused in turn.
TEST(OpenClDevice, OperatorsComputeWhatTheyMean) {
  const Target target = findTarget("opencl");
  const Backend* backend = findBackend("opencl");
  if (!backend || !backend->open(target)) GTEST_SKIP() << "no OpenCL device";
  const std::shared_ptr<Device> held = backend->open(target);
  const char* each = std::getenv("TEKTITE_OPENCL_CASES");
  const char* comma = each ? std::strchr(each, ',') : nullptr;
  int number = 0;
  runAll({"opencl", false, false,
          [&](const Graph& g, const std::vector<TensorAttribute>& in) {
            return runCompiled(g, in, number++ % 2 == 1, target);
          }},
         each ? std::max(1, std::atoi(each)) : 40, comma ? std::atoi(comma + 1) : 0);
}

}  // namespace
}  // namespace tektite
