// Models that are wrong, or look so: each is refused in one line that names file, node and operator, or runs. Never an assertion, never memory
// without bound.
#include <set>

#include "../evaluators.h"
#include "test_model.h"

namespace tektite {
namespace {

std::string cut(const std::string& message, const TestModel& m) {
  const size_t at = message.find(m.folder.string() + "/");
  return at == std::string::npos ? message : message.substr(at + m.folder.string().size() + 1);
}

/// What compiling and running says, or "" where it works; inputs are ones.
std::string useOf(const TestModel& m) {
  try {
    const Graph g = importOnnx(m.save());
    std::vector<TensorAttribute> in;
    for (const Value v : g.inputs()) {
      const TensorType& t = g.type(v);
      in.push_back({t, Tensor::of(t.dtype, t.extents(),
                                  std::vector<double>(static_cast<size_t>(t.elements()), 1))
                           .toConst()});
    }
    for (const Evaluator& e : evaluators()) e.run(g, in);
    return "";
  } catch (const UserError& e) {
    return cut(e.what(), m);
  }
}

TestModel oneNode(const std::string& op, const std::vector<std::string>& shape) {
  TestModel m;
  m.input("x", shape);
  m.node(op, {"x"}, {"y"}, "odd");
  m.output("y");
  return m;
}

TEST(CasesOfInput, UnknownOperator) {
  EXPECT_EQ(useOf(oneNode("Frobnicate", {"2"})),
            "m.onnx: node 'odd' (Frobnicate): unsupported operator Frobnicate (version 17 of "
            "'ai.onnx')");
  TestModel m = oneNode("Relu", {"2"});
  m.proto.mutable_graph()->mutable_node(0)->set_domain("my.own");
  EXPECT_EQ(useOf(m),
            "m.onnx: node 'odd' (Relu): unsupported operator Relu (version 1 of 'my.own')");
}

TEST(CasesOfInput, AttributeOutOfRange) {
  for (const int64_t axis : {int64_t{2}, int64_t{-3}, INT64_MAX, INT64_MIN}) {
    TestModel m = oneNode("Softmax", {"2", "3"});
    auto* a = m.proto.mutable_graph()->mutable_node(0)->add_attribute();
    a->set_name("axis");
    a->set_type(onnx::AttributeProto::INT);
    a->set_i(axis);
    EXPECT_EQ(
        useOf(m),
        fmt::format("m.onnx: node 'odd' (Softmax): axis {} is out of range for rank 2", axis));
  }
}

TEST(CasesOfInput, CyclicGraph) {
  TestModel m;
  m.input("x", {"2"});
  m.node("Add", {"x", "b"}, {"a"}, "first");
  m.node("Relu", {"a"}, {"b"}, "second");
  m.output("b");
  EXPECT_EQ(useOf(m),
            "m.onnx: nodes 'second', 'first' read each other's results, expected no cycle");
  m.proto.mutable_graph()->mutable_node(0)->set_input(1, "a");  // itself
  EXPECT_EQ(useOf(m), "m.onnx: node 'first' reads its own result, expected no cycle");
}

/// A chain whose nodes stand in the file from the last to the first: they run in their order, and keep the names of their places.
TEST(CasesOfInput, NodesInAnyOrder) {
  TestModel m;
  m.input("x", {"2"});
  constexpr int kLength = 20'000;
  const auto value = [](int i) { return i ? fmt::format("v{}", i) : std::string("x"); };
  for (int i = kLength; i-- > 0;) m.node("Neg", {value(i)}, {value(i + 1)}, "");
  m.node("If", {"flag"}, {"y"}, "choice");
  auto* flag = m.weight("flag", {});
  flag->set_data_type(onnx::TensorProto::BOOL);
  flag->add_int32_data(1);
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto* a = m.proto.mutable_graph()->mutable_node(kLength)->add_attribute();
    a->set_name(branch);
    a->set_type(onnx::AttributeProto::GRAPH);
    auto* late = a->mutable_g()->add_node();
    late->set_op_type("Sub");
    late->add_input("inner");
    late->add_input(value(kLength));  // from around it
    late->add_output("z");
    auto* early = a->mutable_g()->add_node();
    early->set_op_type("Abs");
    early->add_input("x");
    early->add_output("inner");
    a->mutable_g()->add_output()->set_name("z");
  }
  m.output("y");
  m.proto.mutable_graph()->mutable_node()->SwapElements(0, kLength);  // the reader comes first
  const Graph g = importOnnx(m.save());
  std::set<std::string> names;
  for (const Node& n : g.nodes) names.insert(n.origin);
  EXPECT_TRUE(names.count(fmt::format("Neg_{}", kLength)));
  EXPECT_TRUE(names.count("choice/Sub_0"));
  const Tensor x = Tensor::of(DType::F32, {2}, {-1.5, 2});
  const Tensor y =
      Tensor::fromRaw(DType::F32, {2}, interpret(g, {{x.type(), x.toConst()}})[0].data->data);
  EXPECT_EQ(y.at(0), 3);
  EXPECT_EQ(y.at(1), 0);
}

TEST(CasesOfInput, FileCutAnywhere) {
  TestModel m = oneNode("Softmax", {"2", "3"});
  auto* w = m.weight("w", {3});
  for (int i = 0; i < 3; i++) w->add_float_data(static_cast<float>(i));
  m.node("Add", {"y", "w"}, {"z"}, "sum");
  ASSERT_EQ(useOf(m), "");
  std::set<std::string> said;
  const size_t size = m.proto.SerializeAsString().size();
  for (size_t less = 1; less < size; less++) said.insert(m.error(less));
  EXPECT_TRUE(said.count("m.onnx: not an ONNX model, or cut short"));
  for (const std::string& s : said)
    EXPECT_TRUE(s == "no error" || s.starts_with("m.onnx: "))
        << s;  // a prefix may be a whole model
}

TEST(CasesOfInput, ShapesOfGibibytes) {
  // computed: nothing of it is stored
  TestModel m;
  auto* shape = m.weight("shape", {2});
  shape->set_data_type(onnx::TensorProto::INT64);
  for (const int64_t n : {1 << 16, 1 << 16}) shape->add_int64_data(n);
  m.input("x", {"1", "1"});
  m.node("Expand", {"x", "shape"}, {"wide"}, "wide");
  auto* top = m.node("ReduceMax", {"wide"}, {"y"}, "top");
  auto* axes = top->add_attribute();
  axes->set_name("axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(0);
  axes->add_ints(1);
  m.output("y");
  CompileOptions options = compileOptions(false);
  options.code = false;
  const auto program = compile(prepareGraph(importOnnx(m.save()), {}, {}), options);
  EXPECT_LT(program->arenaBytes + program->constantBytes + program->packedBytes, 1 << 24);
  // more elements than there are numbers
  shape->set_int64_data(0, INT64_MAX);
  EXPECT_EQ(
      useOf(m),
      "m.onnx: node 'wide' (Expand): a result of shape f32[9223372036854775807x65536] has more "
      "elements than can be counted");
  // a weight of which the file has not that much
  TestModel w = oneNode("Relu", {"2"});
  w.weight("w", {int64_t{1} << 20, int64_t{1} << 20})->set_raw_data("abcd");
  w.node("Add", {"y", "w"}, {"z"}, "sum");
  EXPECT_NE(useOf(w).find("m.onnx: node 'sum' (Add): tensor 'w'"), std::string::npos) << useOf(w);
  w.proto.mutable_graph()->mutable_initializer(0)->set_dims(0, int64_t{1} << 44);
  EXPECT_NE(useOf(w).find("m.onnx: node 'sum' (Add): tensor 'w'"), std::string::npos) << useOf(w);
}

TEST(CasesOfInput, NegativeExtents) {
  TestModel m = oneNode("Relu", {"2", "3"});
  m.proto.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(-3);
  EXPECT_EQ(useOf(m),
            "m.onnx: input 'x': axis 1 has extent -3, expected 0 or more, or -1 where it isn't "
            "known");
  TestModel w = oneNode("Relu", {"2"});
  w.weight("w", {-2})->set_raw_data(std::string(8, '\0'));
  w.node("Add", {"y", "w"}, {"z"}, "sum");
  EXPECT_NE(useOf(w).find("m.onnx: node 'sum' (Add): tensor 'w'"), std::string::npos) << useOf(w);
  TestModel r = oneNode("Relu", {"2", "3"});
  auto* to = r.weight("to", {2});
  to->set_data_type(onnx::TensorProto::INT64);
  for (const int64_t n : {-5, 2}) to->add_int64_data(n);
  r.node("Reshape", {"y", "to"}, {"z"}, "shape");
  EXPECT_NE(useOf(r).find("m.onnx: node 'shape' (Reshape): "), std::string::npos) << useOf(r);
}

TEST(CasesOfInput, NamesOfAnyKind) {
  const std::vector<std::string> names = {
      "int",   "for",  "class", "fused", "g0",     "kernel", "return", "main", "d0",  "$0",    "%1",
      "a b",   "x\"y", "é",     "a/b:c", "define", "a\nb",   "'",      "\\",   "{}",  "%s",    "*",
      "input", "0",    "-",     "x,y",   "i32",    "select", "if",     "max",  "[1]", "--json"};
  TestModel m;
  m.input(names[0], {"4", "8"});
  for (size_t i = 1; i < names.size(); i++)
    m.node(i % 2 ? "Abs" : "Softmax", {names[i - 1]}, {names[i]}, names[i]);
  m.output(names.back());
  EXPECT_EQ(useOf(m), "");
  const Graph g = importOnnx(m.save());
  EXPECT_EQ(toText(parseGraph(toText(g), "again")), toText(g));
  const std::string longName(5000, 'n');
  TestModel l = oneNode("Relu", {"n"});
  l.proto.mutable_graph()->mutable_node(0)->set_name(longName);
  l.proto.mutable_graph()
      ->mutable_input(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_param("for");
  EXPECT_EQ(importOnnx(l.save()).dims.size(), 1u);
}

}  // namespace
}  // namespace tektite
