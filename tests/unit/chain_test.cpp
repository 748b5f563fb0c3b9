// Models in parts: how many parts a run compiles, and what it makes of data that decides shapes.
#include <onnx/onnx_pb.h>

#include <fstream>
#include <random>

#include "../model_case.h"
#include "ops/util.h"
#include "test_model.h"

namespace tektite {
namespace {

/// An operator that is its operand, and ends the part: the elements have to be known, or something that follows from them.
const OpDef ask{"Ask",
                [](Builder& b, const OpCall& c) -> Values {
                  if (numbersOf(b, c.at(0))) return c.at(0);
                  if (c.integer("again", 0)) throw NeedValue{c.at(0), "the operand", {}, {}};
                  std::vector<int> all = axisRange(0, b.rank(c.at(0)));
                  throw NeedValue{b.reduce("max", c.at(0), all),
                                  "the maximum",
                                  {c.at(0)},
                                  [](Builder&, Value, const std::vector<Value>& keep) -> Values {
                                    return keep[0];
                                  }};
                },
                1, "tests"};

std::string model(const std::string& name) {
  return (std::filesystem::path(TEKTITE_TESTS) / "models" / name / "model.onnx").string();
}

Carried integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  const auto array = std::make_shared<Array>(DType::I64, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(array->data()));
  return carriedFrom(std::shared_ptr<const Array>(array));
}

Carried floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  const auto array = std::make_shared<Array>(DType::F32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(array->data()));
  return carriedFrom(std::shared_ptr<const Array>(array));
}

/// One way to run a model.
struct Parts {
  Team team{1};
  Chain chain;
  Parts(const std::string& name, bool interpreted = false, Chain::Limits limits = Chain::Limits())
      : chain(openOnnx(model(name)), compileOptions(false), team, interpreted, limits) {}
};

void expectSame(const std::vector<Carried>& a, const std::vector<Carried>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++)
    EXPECT_EQ(difference(tensorFrom(a[i]), tensorFrom(b[i]), 1e-5), "") << "output " << i;
}

TEST(Chain, AModelOfKnownShapesIsOneGraph) {
  for (const char* name : {"transformer", "convnet", "recurrent"})
    EXPECT_TRUE(openModel(model(name)).graph) << name;
  for (const char* name : {"decode", "picking", "boxes"}) {
    const OpenedModel opened = openModel(model(name));
    EXPECT_FALSE(opened.graph) << name;
    EXPECT_TRUE(opened.parts) << name;
  }
}

TEST(Chain, PartsAreCompiledOnce) {
  Parts run("decode");
  const std::vector<Carried> in = {integers({1, 2}, {3, 1}), integers({}, {7})};
  const auto first = run.chain.run(in);
  const int compiled = run.chain.compilations();
  EXPECT_GT(compiled, 1);
  expectSame(run.chain.run(in), first);
  EXPECT_EQ(run.chain.compilations(), compiled);
  // Fewer steps: their parts are there, what follows has another shape.
  const auto fewer = run.chain.run({integers({1, 2}, {3, 1}), integers({}, {3})});
  EXPECT_EQ(fewer.at(1).shape, (std::vector<int64_t>{3, 1}));
  EXPECT_LE(run.chain.compilations(), compiled + 2);
}

TEST(Chain, FewPartsAreKeptAndAllIsRight) {
  Parts few("decode", false, {1, 1 << 30}), interpreted("decode", true);
  const std::vector<Carried> in = {integers({1, 2}, {3, 1}), integers({}, {5})};
  const auto expected = interpreted.chain.run(in);
  EXPECT_EQ(interpreted.chain.compilations(), 0);
  expectSame(few.chain.run(in), expected);
  Parts small("decode", false, {1000, 1});
  expectSame(small.chain.run(in), expected);
  const int once = few.chain.compilations();
  EXPECT_EQ(small.chain.compilations(), once);
  expectSame(few.chain.run(in), expected);
  EXPECT_GT(few.chain.compilations(), once);  // nothing of the run before was left
}

TEST(Chain, LoopsOfNoStep) {
  Parts run("decode");
  const auto out = run.chain.run({integers({1, 1}, {2}), integers({}, {0})});
  EXPECT_EQ(out.at(0).shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(out.at(1).shape,
            (std::vector<int64_t>{0, 1}));  // nothing stacked, of the shape that a step would give
}

/// Results of every size, none of them included, against loops written out.
TEST(Chain, AsManyResultsAsDataSays) {
  Parts run("picking");
  for (const float limit : {2.f, 0.f, -0.7f, -9.f}) {
    std::vector<float> x(24), expected;
    for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i)) - limit;
    for (const float v : x)
      if (v > 0.3f) expected.push_back(v);
    const std::vector<int64_t> kinds = {2, 0, 2, 3, 3, 3, 0, 2, 2, 3};
    const auto out = run.chain.run({floats({3, 8}, x), integers({10}, kinds)});
    ASSERT_EQ(out.at(0).shape, (std::vector<int64_t>{static_cast<int64_t>(expected.size())}));
    for (size_t i = 0; i < expected.size(); i++)
      EXPECT_EQ(static_cast<const float*>(out[0].data)[i], expected[i]);
    const auto* distinct = static_cast<const int64_t*>(out.at(6).data);
    EXPECT_EQ(std::vector<int64_t>(distinct, distinct + out[6].shape[0]),
              (std::vector<int64_t>{0, 2, 3}));
    const auto* counts = static_cast<const int64_t*>(out.at(8).data);
    EXPECT_EQ(std::vector<int64_t>(counts, counts + 3), (std::vector<int64_t>{2, 4, 4}));
  }
}

/// y = Range(start, limit, delta), start and limit inputs.
void addRange(TestModel& m, int32_t type, double delta) {
  for (const char* name : {"start", "limit"}) m.input(name, {});
  for (auto& i : *m.proto.mutable_graph()->mutable_input())
    i.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  onnx::TensorProto* by = m.weight("delta", {});
  by->set_data_type(type);
  if (type == onnx::TensorProto::FLOAT)
    by->add_float_data(static_cast<float>(delta));
  else
    by->add_int64_data(static_cast<int64_t>(delta));
  m.node("Range", {"start", "limit", "delta"}, {"y"});
  m.output("y");
}

/// A part for each number of elements, none for each start.
TEST(Chain, RangesOfOneLengthAreOnePart) {
  for (const auto& [type, delta] :
       std::vector<std::pair<int32_t, double>>{{onnx::TensorProto::INT64, 1},
                                               {onnx::TensorProto::INT64, -3},
                                               {onnx::TensorProto::FLOAT, 0.5},
                                               {onnx::TensorProto::FLOAT, -1.5}}) {
    TestModel m;
    addRange(m, type, delta);
    Team team(1);
    Chain chain(openOnnx(m.save()), compileOptions(false), team);
    int once = 0;
    for (const int64_t start : {5, -9, 700, 0, 3}) {
      for (const int64_t length : {0, 1, 7, 8}) {
        const double limit = static_cast<double>(start) + delta * static_cast<double>(length);
        const bool real = type == onnx::TensorProto::FLOAT;
        const auto scalar = [&](double v) {
          return real ? floats({}, {static_cast<float>(v)})
                      : integers({}, {static_cast<int64_t>(v)});
        };
        const auto out = chain.run({scalar(static_cast<double>(start)), scalar(limit)});
        ASSERT_EQ(out.at(0).shape, (std::vector<int64_t>{length})) << start << " by " << delta;
        for (int64_t i = 0; i < length; i++) {
          const double expected = static_cast<double>(start) + delta * static_cast<double>(i);
          EXPECT_EQ(real ? static_cast<const float*>(out[0].data)[i]
                         : static_cast<double>(static_cast<const int64_t*>(out[0].data)[i]),
                    expected);
        }
      }
      if (!once) once = chain.compilations();
      EXPECT_EQ(chain.compilations(), once) << start << " by " << delta;
    }
  }
}

/// Puts the operator behind some results of the model's nodes.
void askSomewhere(onnx::ModelProto& m, std::mt19937& random) {
  auto* set = m.add_opset_import();
  set->set_domain("tests");
  set->set_version(1);
  onnx::GraphProto plain = m.graph();
  m.mutable_graph()->clear_node();
  for (const onnx::NodeProto& n : plain.node()) {
    onnx::NodeProto* copy = m.mutable_graph()->add_node();
    *copy = n;
    for (int i = 0; i < n.output_size(); i++) {
      if (n.output(i).empty() || random() % 2) continue;
      copy->set_output(i, n.output(i) + "_asked");
      onnx::NodeProto* asked = m.mutable_graph()->add_node();
      asked->set_op_type("Ask");
      asked->set_domain("tests");
      asked->add_input(copy->output(i));
      asked->add_output(n.output(i));
      onnx::AttributeProto* again = asked->add_attribute();
      again->set_name("again");
      again->set_type(onnx::AttributeProto::INT);
      again->set_i(random() % 16 == 0);
    }
  }
}

/// Wherever a model is cut, what it gives is the same.
TEST(Chain, CutsAnywhereChangeNothing) {
  std::mt19937 random(7);
  const auto folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("tektite_cuts_{}", ::getpid());
  int parts = 0;
  for (const char* name : {"transformer", "convnet", "recurrent", "control", "quantised"}) {
    std::filesystem::copy(std::filesystem::path(TEKTITE_TESTS) / "models" / name, folder,
                          std::filesystem::copy_options::recursive);
    onnx::ModelProto m;
    std::ifstream in(model(name), std::ios::binary);
    ASSERT_TRUE(m.ParseFromIstream(&in));
    askSomewhere(m, random);
    const std::string path = (folder / "model.onnx").string();
    std::ofstream(path, std::ios::binary) << m.SerializeAsString();
    for (const Evaluator& e : evaluators()) {
      const ModelOutcome outcome = runModel(folder, e, 1e-5);
      EXPECT_TRUE(outcome.passed) << name << ", " << e.name << ": " << outcome.why;
    }
    Team team(1);
    Chain chain(openOnnx(path), compileOptions(false), team);
    std::vector<Carried> inputs;
    for (const TensorAttribute& t : readTensors(folder, "input"))
      inputs.push_back({t.type.dtype, t.type.extents(), t.data->data, t.data});
    chain.run(inputs);
    parts += static_cast<int>(chain.reached().size());
    std::filesystem::remove_all(folder);
  }
  EXPECT_GT(parts, 30);
}

TEST(Chain, WrongInputsAreNamed) {
  Parts run("decode");
  const auto message = [&](const std::vector<Carried>& in) -> std::string {
    try {
      run.chain.run(in);
    } catch (const UserError& e) {
      const std::string text = e.what();
      const size_t at = text.find("model.onnx: ");
      return at == std::string::npos ? text : text.substr(at + 12);
    }
    return "no error";
  };
  EXPECT_EQ(message({integers({1, 2}, {3, 1})}), "1 inputs found, expected 2");
  EXPECT_EQ(message({floats({1, 2}, {3, 1}), integers({}, {3})}),
            "input 'start': f32[1x2] found, expected i64[1 x length]");
}

}  // namespace
}  // namespace tektite
