#include "onnx/tensor_file.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "onnx/model.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::pair<DType, std::string_view> kDescriptions[] = {
    {DType::Bool, "|b1"}, {DType::I8, "|i1"},  {DType::U8, "|u1"},  {DType::I16, "<i2"},
    {DType::U16, "<u2"},  {DType::I32, "<i4"}, {DType::U32, "<u4"}, {DType::I64, "<i8"},
    {DType::U64, "<u8"},  {DType::F16, "<f2"}, {DType::F32, "<f4"}, {DType::F64, "<f8"}};

std::shared_ptr<const ConstData> owned(std::string bytes) {
  auto text = std::make_shared<const std::string>(std::move(bytes));
  auto out = std::make_shared<ConstData>();
  out->data = text->data();
  out->bytes = text->size();
  out->owner = text;
  return out;
}

/// The text after `'key':` in the header's dictionary.
std::string_view entry(std::string_view header, std::string_view key, const std::string& path) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) userError("{}: no '{}' in its header", path, key);
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

std::vector<int64_t> shapeIn(std::string_view text) {
  std::vector<int64_t> shape;
  for (size_t i = 1; i < text.size() && text[i] != ')'; i++) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) continue;
    int64_t n = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); i++)
      n = n * 10 + (text[i] - '0');
    shape.push_back(n);
    i--;
  }
  return shape;
}

/// From column-major order.
std::string rowMajor(std::string_view data, const std::vector<int64_t>& shape, size_t size) {
  std::string out(data.size(), '\0');
  std::vector<int64_t> at(shape.size(), 0);
  for (size_t i = 0; (i + 1) * size <= data.size(); i++) {
    size_t row = 0;
    for (size_t a = 0; a < shape.size(); a++)
      row = row * static_cast<size_t>(shape[a]) + static_cast<size_t>(at[a]);
    std::memcpy(out.data() + row * size, data.data() + i * size, size);
    for (size_t a = 0; a < shape.size() && ++at[a] == shape[a]; a++) at[a] = 0;
  }
  return out;
}

TensorAttribute readNpy(const std::string& path, std::string_view file) {
  if (file.size() < 12) userError("{}: cut short", path);
  const bool wide = file[6] >= 2;
  uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, wide ? 4 : 2);
  const size_t start = (wide ? 12 : 10) + length;
  if (start > file.size()) userError("{}: cut short", path);
  const std::string_view header = file.substr(wide ? 12 : 10, length),
                         description = entry(header, "descr", path);
  const auto known =
      std::find_if(std::begin(kDescriptions), std::end(kDescriptions),
                   [&](const auto& d) { return description.substr(1, 3) == d.second; });
  if (known == std::end(kDescriptions))
    userError("{}: elements of type {}", path, description.substr(0, description.find(',')));
  TensorAttribute out{{known->first, {}}, nullptr};
  const auto shape = shapeIn(entry(header, "shape", path));
  for (const int64_t d : shape) out.type.shape.push_back(d);
  const auto size = static_cast<size_t>(bytes(known->first));
  const size_t expected = static_cast<size_t>(out.type.elements()) * size;
  if (file.size() - start < expected)
    userError("{}: {} bytes of data, expected {}", path, file.size() - start, expected);
  const std::string_view data = file.substr(start, expected);
  out.data =
      owned(entry(header, "fortran_order", path).starts_with("True") ? rowMajor(data, shape, size)
                                                                     : std::string(data));
  return out;
}

}  // namespace

TensorAttribute readTensor(const std::string& path) {
  const auto file = mapFile(path);
  const std::string_view text(static_cast<const char*>(file->data), file->bytes);
  if (text.starts_with(kMagic)) return readNpy(path, text);
  onnx::TensorProto t;
  if (!t.ParseFromArray(text.data(), static_cast<int>(text.size())))
    userError("{}: neither .npy nor a tensor of ONNX", path);
  try {
    return inlineTensor(t);
  } catch (const UserError& e) {
    userError("{}: {}", path, e.what());
  }
}

void writeNpy(const std::string& path, DType type, const std::vector<int64_t>& shape,
              const void* data) {
  int64_t n = 1;
  for (const int64_t d : shape) n *= d;
  std::string bytesOut(static_cast<const char*>(data),
                       static_cast<size_t>(n) * static_cast<size_t>(bytes(type)));
  if (type == DType::BF16) {
    bytesOut.resize(static_cast<size_t>(n) * 4);
    for (int64_t i = 0; i < n; i++)
      storeFloat(DType::F32, bytesOut.data(), i, loadFloat(type, data, i));
  }
  const DType stored = type == DType::BF16 ? DType::F32
                       : type == DType::I4 ? DType::I8
                       : type == DType::U4 ? DType::U8
                                           : type;
  const auto* known = std::find_if(std::begin(kDescriptions), std::end(kDescriptions),
                                   [&](const auto& d) { return d.first == stored; });
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", known->second,
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  const auto length = static_cast<uint16_t>(header.size());
  out.write(kMagic.data(), 6).write("\1\0", 2).write(reinterpret_cast<const char*>(&length), 2);
  out.write(header.data(), static_cast<std::streamsize>(header.size()))
      .write(bytesOut.data(), static_cast<std::streamsize>(bytesOut.size()));
  if (!out.flush()) userError("{}: not writable", path);
}

}  // namespace tektite
