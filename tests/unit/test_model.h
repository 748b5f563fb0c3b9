#pragma once
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>

#include "onnx/import.h"
#include "support/check.h"

namespace tektite {

/// An ONNX model in the making, in a folder of its own.
struct TestModel {
  onnx::ModelProto proto;
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      fmt::format("tektite_{}", testing::UnitTest::GetInstance()->current_test_info()->name());

  TestModel() {
    std::filesystem::create_directories(folder);
    proto.set_ir_version(8);
    auto* opset = proto.add_opset_import();
    opset->set_version(17);
    proto.mutable_graph()->set_name("test");
  }
  ~TestModel() { std::filesystem::remove_all(folder); }
  void input(const std::string& name, const std::vector<std::string>& dims) {
    auto* i = proto.mutable_graph()->add_input();
    i->set_name(name);
    auto* t = i->mutable_type()->mutable_tensor_type();
    t->set_elem_type(1);
    t->mutable_shape();
    for (const std::string& d : dims) {
      auto* dim = t->mutable_shape()->add_dim();
      if (std::isdigit(static_cast<unsigned char>(d[0])))
        dim->set_dim_value(std::stol(d));
      else if (d != "?")
        dim->set_dim_param(d);
    }
  }
  void output(const std::string& name) { proto.mutable_graph()->add_output()->set_name(name); }
  onnx::NodeProto* node(const std::string& op, const std::vector<std::string>& in,
                        const std::vector<std::string>& out, const std::string& name = "") {
    auto* n = proto.mutable_graph()->add_node();
    n->set_op_type(op);
    n->set_name(name);
    for (const auto& i : in) n->add_input(i);
    for (const auto& o : out) n->add_output(o);
    return n;
  }
  onnx::TensorProto* weight(const std::string& name, const std::vector<int64_t>& dims) {
    auto* t = proto.mutable_graph()->add_initializer();
    t->set_name(name);
    t->set_data_type(1);
    for (const int64_t d : dims) t->add_dims(d);
    return t;
  }
  std::string save(size_t cut = 0) const {
    const std::string text = proto.SerializeAsString(), path = (folder / "m.onnx").string();
    std::ofstream(path, std::ios::binary) << text.substr(0, text.size() - cut);
    return path;
  }
  Graph import(ModelInfo* info = nullptr) const { return importOnnx(save(), {}, info); }
  std::string error(size_t cut = 0) const {
    try {
      importOnnx(save(cut));
    } catch (const UserError& e) {
      return std::string(e.what()).substr(folder.string().size() + 1);
    }
    return "no error";
  }
};

}  // namespace tektite
