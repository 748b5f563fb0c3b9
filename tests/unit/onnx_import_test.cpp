#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

#include "fusion/fuse.h"
#include "onnx/import.h"
#include "onnx/tensor_file.h"
#include "support/check.h"
#include "test_model.h"

namespace tektite {
namespace {

namespace fs = std::filesystem;

TEST(OnnxImport, NamesDimsAndOrigins) {
  TestModel m;
  m.input("x", {"batch size", "4"});
  m.input("y", {"?", "4"});
  m.node("Relu", {"x"}, {"r"}, "first");
  m.node("Concat", {"r", "y"}, {"z"})->add_attribute()->set_name("axis");
  m.proto.mutable_graph()->mutable_node(1)->mutable_attribute(0)->set_type(
      onnx::AttributeProto::INT);
  m.output("z");
  ModelInfo info;
  const Graph g = m.import(&info);
  ASSERT_EQ(info.dims.size(), 2u);
  EXPECT_EQ(info.dims[0].name, "batch_size");
  EXPECT_TRUE(info.dims[0].named);
  EXPECT_EQ(info.dims[1].name, "y_dim0");
  EXPECT_FALSE(info.dims[1].named);
  EXPECT_EQ(toText(info.outputs.at(0).type), "f32[batch_size + y_dim0 x 4]");
  EXPECT_EQ(g.node(g.outputs[0]).origin, "Concat_1");
  EXPECT_EQ(g.node(g.node(g.outputs[0]).operands[0]).origin, "first");
  EXPECT_EQ(g.outputNames, std::vector<std::string>{"z"});
}

TEST(OnnxImport, LargeTensorsAreMappedSmallOnesCopied) {
  for (const int64_t n : {4, 4096}) {
    TestModel m;
    m.input("x", {std::to_string(n)});
    std::vector<float> data(static_cast<size_t>(n));
    for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<float>(i);
    m.weight("w", {n})->set_raw_data(data.data(), data.size() * 4);
    m.node("Add", {"x", "w"}, {"y"});
    m.output("y");
    const Graph g = m.import();
    const Node& w = g.node(g.node(g.outputs[0]).operands[1]);
    EXPECT_EQ(w.name, "w");
    ASSERT_TRUE(w.as<Const>() && w.as<Const>()->data);
    EXPECT_EQ(loadFloat(DType::F32, w.as<Const>()->data->data, n - 1), static_cast<double>(n - 1));
  }
}

TEST(OnnxImport, ExternalDataStaysInTheFolder) {
  TestModel m;
  m.input("x", {"2"});
  auto* w = m.weight("w", {2});
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* where = w->add_external_data();
  where->set_key("location");
  where->set_value("w.bin");
  m.node("Add", {"x", "w"}, {"y"}, "sum");
  m.output("y");
  EXPECT_NE(m.error().find("w.bin: No such file"), std::string::npos) << m.error();
  const float data[] = {1.5f, 2.5f};
  std::ofstream(m.folder / "w.bin", std::ios::binary).write(reinterpret_cast<const char*>(data), 8);
  EXPECT_EQ(m.error(), "no error");
  where->set_value("../w.bin");
  EXPECT_EQ(m.error(),
            "m.onnx: node 'sum' (Add): tensor 'w' is in '../w.bin', expected a file in the model's "
            "folder");
}

TEST(OnnxImport, ErrorsNameTheNode) {
  TestModel m;
  m.input("x", {"2", "3"});
  m.node("Frobnicate", {"x"}, {"y"}, "odd");
  m.output("y");
  EXPECT_EQ(
      m.error(),
      "m.onnx: node 'odd' (Frobnicate): unsupported operator Frobnicate (version 17 of 'ai.onnx')");
  m.proto.mutable_graph()->mutable_node(0)->set_op_type("MatMul");
  m.proto.mutable_graph()->mutable_node(0)->add_input("x");
  EXPECT_NE(m.error().find("m.onnx: node 'odd' (MatMul): contract: axis 'z' is"), std::string::npos)
      << m.error();
  m.proto.mutable_graph()->mutable_node(0)->set_input(1, "nothing");
  EXPECT_EQ(m.error(),
            "m.onnx: node 'odd' (MatMul): input 'nothing' is not defined by any node before");
  EXPECT_EQ(m.error(3), "m.onnx: not an ONNX model, or cut short");
  m.proto.mutable_graph()->mutable_node(0)->set_op_type("Softmax");
  m.proto.mutable_graph()->mutable_node(0)->mutable_input()->RemoveLast();
  auto* axis = m.proto.mutable_graph()->mutable_node(0)->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::FLOAT);
  EXPECT_EQ(m.error(),
            "m.onnx: node 'odd' (Softmax): attribute 'axis' is a number, expected an integer");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(2);
  EXPECT_EQ(m.error(), "m.onnx: node 'odd' (Softmax): axis 2 is out of range for rank 2");
}

TEST(OnnxImport, ErrorsOfModelsInParts) {
  const auto open = [](const TestModel& m) -> std::string {
    try {
      openModel(m.save());
    } catch (const UserError& e) {
      return std::string(e.what()).substr(m.folder.string().size() + 1);
    }
    return "no error";
  };
  TestModel m;
  m.input("x", {"n", "3"});
  m.input("s", {"1", "2", "4"});
  m.node("NonZero", {"x"}, {"p"}, "where");
  m.node("Frobnicate", {"p"}, {"y"}, "odd");
  m.output("y");
  EXPECT_EQ(
      m.error(),
      "m.onnx: node 'where' (NonZero): the number of elements that are not 0 is computed from "
      "data, expected one that follows from shapes");
  EXPECT_EQ(
      open(m),
      "m.onnx: node 'odd' (Frobnicate): unsupported operator Frobnicate (version 17 of 'ai.onnx')");
  auto* node = m.proto.mutable_graph()->mutable_node(1);
  node->set_op_type("Relu");
  EXPECT_EQ(open(m), "no error");
  node->set_op_type("NonMaxSuppression");
  node->set_input(0, "s");
  node->add_input("s");
  m.proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
  EXPECT_EQ(open(m),
            "m.onnx: node 'odd' (NonMaxSuppression): boxes are f32[1x2x4] and scores f32[1x2x4], "
            "expected [N x M x 4] and [N x C x M]");
  node = m.proto.mutable_graph()->mutable_node(0);
  node->set_op_type("Gather");
  node->set_input(0, "x");
  node->set_input(1, "nothing");
  EXPECT_EQ(open(m),
            "m.onnx: node 'odd' (Gather): input 'nothing' is not defined by any node before");
}

TEST(OnnxImport, LoopsWhoseGraphsDontFit) {
  TestModel m;
  m.input("x", {"2"});
  m.input("b", {});
  auto* loop = m.node("Loop", {"", "", "x"}, {"y"}, "loop");
  auto* body = loop->add_attribute();
  body->set_name("body");
  body->set_type(onnx::AttributeProto::GRAPH);
  for (const char* name : {"i", "on", "s"}) body->mutable_g()->add_input()->set_name(name);
  body->mutable_g()->add_output()->set_name("on");
  m.output("y");
  EXPECT_EQ(m.error(), "m.onnx: node 'loop' (Loop): the number of its steps depends on data");
  const RestPtr all = openOnnx(m.save());
  const std::map<int, TensorType> types = {{0, {DType::F32, {2}}}, {1, {DType::F32, {}}}};
  const auto part = [&](const RestPtr& rest) -> std::string {
    try {
      importPart(*rest, types, {});
    } catch (const UserError& e) {
      return std::string(e.what()).substr(m.folder.string().size() + 1);
    }
    return "no error";
  };
  EXPECT_EQ(part(all), "m.onnx: node 'loop' (Loop): its graph has 1 outputs, expected 2 at least");
  body->mutable_g()->add_output()->set_name("s");
  EXPECT_EQ(part(openOnnx(m.save())), "no error");
  body->mutable_g()->mutable_input()->RemoveLast();
  EXPECT_EQ(part(openOnnx(m.save())),
            "m.onnx: node 'loop' (Loop): its graph has 2 inputs, expected 3");
}

TEST(OnnxImport, LocalFunctionsAreInlined) {
  TestModel m;
  m.proto.add_opset_import()->set_domain("mine");
  m.proto.add_opset_import()->set_version(17);  // the default set a second time
  auto* f = m.proto.add_functions();
  f->set_name("Twice");
  f->set_domain("mine");
  f->add_input("a");
  f->add_output("b");
  f->add_opset_import()->set_version(17);
  auto* add = f->add_node();
  add->set_op_type("Add");
  add->add_input("a");
  add->add_input("a");
  add->add_output("b");
  m.input("x", {"2"});
  m.node("Twice", {"x"}, {"y"}, "call")->set_domain("mine");
  m.output("y");
  const Graph g = m.import();
  EXPECT_EQ(g.node(g.outputs[0]).origin, "call/Add_0");
}

TEST(OnnxImport, ShapeArithmeticFolds) {
  TestModel m;
  m.input("x", {"n", "s", "6"});
  m.node("Shape", {"x"}, {"shape"});
  m.weight("zero", {})->add_int64_data(0);
  m.proto.mutable_graph()->mutable_initializer(0)->set_data_type(7);
  m.node("Gather", {"shape", "zero"}, {"n"});
  auto* axes = m.weight("axes", {1});
  axes->set_data_type(7);
  axes->add_int64_data(0);
  m.node("Unsqueeze", {"n", "axes"}, {"n1"});
  auto* rest = m.weight("rest", {2});
  rest->set_data_type(7);
  rest->add_int64_data(-1);
  rest->add_int64_data(3);
  m.node("Concat", {"n1", "rest"}, {"to"})->add_attribute()->set_name("axis");
  m.proto.mutable_graph()->mutable_node(3)->mutable_attribute(0)->set_type(
      onnx::AttributeProto::INT);
  m.node("Reshape", {"x", "to"}, {"y"});
  m.output("y");
  const Graph g = m.import();
  EXPECT_EQ(toText(g.type(g.outputs[0])), "f32[n x s * 2 x 3]");
}

TEST(TensorFile, NpyRoundTrip) {
  const fs::path path = fs::path(testing::TempDir()) / "tektite_round_trip.npy";
  const float data[] = {1, 2, 3, 4, 5, 6};
  writeNpy(path.string(), DType::F32, {2, 3}, data);
  EXPECT_EQ(fs::file_size(path) % 64, 24u);
  const TensorAttribute t = readTensor(path.string());
  EXPECT_EQ(toText(t.type), "f32[2x3]");
  EXPECT_EQ(loadFloat(DType::F32, t.data->data, 5), 6);
  fs::remove(path);
}

/// Node metadata is newer than the protobuf headers that some systems have.
TEST(OnnxImport, NodesAskFusionForFences) {
  const std::string path = std::string(TEKTITE_TESTS) + "/models/fenced/model.onnx";
  ModelInfo info;
  const Graph g = importOnnx(path, {}, &info);
  EXPECT_EQ(info.cut, (NamePairs{{"mul_2", "exp_0"}, {"mul_2", "tanh_1"}, {"relu_4", "*"}}));
  EXPECT_EQ(info.fuse, (NamePairs{{"add_3", "mul_2"}}));
  FusionOptions options;
  options.modelCut = info.cut;
  options.modelForce = info.fuse;
  options.modelCut.emplace_back("mul_2", "gone");  // passes may take a node away
  const Fused f = fuse(g, findTarget("cpu:avx2"), options);
  const auto verdict = [&](const char* a, const char* b) {
    return f.ledger.between(a, b).at(0).verdict;
  };
  EXPECT_EQ(verdict("exp_0", "tanh_1"), Verdict::Inlined);
  EXPECT_EQ(verdict("tanh_1", "mul_2"), Verdict::Unfused);
  EXPECT_EQ(verdict("mul_2", "add_3"), Verdict::Inlined);
  EXPECT_EQ(verdict("add_3", "relu_4"), Verdict::Unfused);
  EXPECT_EQ(f.ledger.between("add_3", "relu_4").at(0).refusal.reason, Reason::UserFence);
}

}  // namespace
}  // namespace tektite
