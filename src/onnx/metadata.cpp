#include "onnx/metadata.h"

#include <onnx/onnx_pb.h>

#include "support/check.h"

namespace tektite {
namespace {

constexpr int kMetadataProps = 9;  // of NodeProto, since ONNX 1.16; older headers don't know it

/// The entries of a node, whether or not the protobuf headers at hand know them.
std::map<std::string, std::string> metadataOf(const onnx::NodeProto& node) {
  std::map<std::string, std::string> out;
  const auto add = [&](const auto& n) {
    if constexpr (requires { n.metadata_props(); })
      for (const auto& entry : n.metadata_props()) out[entry.key()] = entry.value();
  };
  add(node);
  const auto& unknown = node.GetReflection()->GetUnknownFields(node);
  for (int i = 0; i < unknown.field_count(); i++) {
    const auto& field = unknown.field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == kMetadataProps &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited()))
      out[entry.key()] = entry.value();
  }
  return out;
}

void addPairs(const std::string& node, const std::string& list, NamePairs& out) {
  size_t begin = 0;
  while (begin <= list.size()) {
    const size_t comma = std::min(list.find(',', begin), list.size());
    size_t first = begin, last = comma;
    while (first < last && list[first] == ' ') first++;
    while (last > first && list[last - 1] == ' ') last--;
    if (first == last)
      userError("node '{}': metadata: an empty name found in '{}', expected NODE, NODE...", node,
                list);
    out.emplace_back(node, list.substr(first, last - first));
    begin = comma + 1;
  }
}

}  // namespace

void readFences(const onnx::NodeProto& node, const std::string& name, NamePairs& cut,
                NamePairs& fuse) {
  for (const auto& [key, value] : metadataOf(node)) {
    if (key == "tektite.cut") addPairs(name, value, cut);
    if (key == "tektite.fuse") addPairs(name, value, fuse);
  }
}

}  // namespace tektite
