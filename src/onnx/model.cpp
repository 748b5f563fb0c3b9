#include "onnx/model.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <onnx/onnx_pb.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <filesystem>

#include "onnx/order.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

namespace pb = google::protobuf;
using pb::internal::WireFormatLite;
namespace fs = std::filesystem;

constexpr uint32_t kLargeBytes = 4 << 10;  // raw tensors from here on stay in the mapping
constexpr const char* kMapped =
    "tektite.mapped";  // the key of an external-data entry that says where

/// The messages on the way to a tensor, with the fields that lead on.
enum class Message { Model, Graph, Function, Node, Attribute, SparseTensor, Tensor };
struct Way {
  Message in;
  int field;
  Message to;
};
constexpr Way kWays[] = {
    {Message::Model, 7, Message::Graph},         {Message::Model, 25, Message::Function},
    {Message::Graph, 1, Message::Node},          {Message::Graph, 5, Message::Tensor},
    {Message::Graph, 15, Message::SparseTensor}, {Message::Function, 7, Message::Node},
    {Message::Node, 5, Message::Attribute},      {Message::Attribute, 5, Message::Tensor},
    {Message::Attribute, 6, Message::Graph},     {Message::Attribute, 10, Message::Tensor},
    {Message::Attribute, 11, Message::Graph},    {Message::Attribute, 22, Message::SparseTensor},
    {Message::SparseTensor, 1, Message::Tensor}, {Message::SparseTensor, 2, Message::Tensor}};
constexpr int kRawData = 9, kExternalData = 13;

const Way* wayFrom(Message in, int field) {
  for (const Way& w : kWays)
    if (w.in == in && w.field == field) return &w;
  return nullptr;
}

/// Copies messages without their large raw tensors, of which it notes offset and length.
class Stripper {
 public:
  Stripper(const void* data, size_t bytes)
      : base_(static_cast<const uint8_t*>(data)), in_(base_, static_cast<int>(bytes)) {
    in_.SetTotalBytesLimit(INT_MAX);
  }
  std::optional<std::string> strip(Message message) {
    std::string out;
    if (!copy(message, out) || !in_.ConsumedEntireMessage()) return std::nullopt;
    return out;
  }

 private:
  bool copy(Message message, std::string& out) {
    pb::io::StringOutputStream stream(&out);
    pb::io::CodedOutputStream to(&stream);
    while (const uint32_t tag = in_.ReadTag()) {
      const int field = WireFormatLite::GetTagFieldNumber(tag);
      const bool bytes =
          WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      const Way* way = bytes ? wayFrom(message, field) : nullptr;
      if (way ? !nested(way->to, tag, to)
          : bytes && message == Message::Tensor && field == kRawData
              ? !raw(tag, to)
              : !WireFormatLite::SkipField(&in_, tag, &to))
        return false;
    }
    return true;
  }
  bool nested(Message message, uint32_t tag, pb::io::CodedOutputStream& to) {
    uint32_t length;
    std::string inner;
    if (!in_.ReadVarint32(&length) || length > INT_MAX) return false;
    const auto limit = in_.PushLimit(static_cast<int>(length));
    if (in_.BytesUntilLimit() != static_cast<int>(length))
      return false;  // cut short by the message around it
    if (!in_.IncrementRecursionDepth() || !copy(message, inner) || !in_.ConsumedEntireMessage() ||
        in_.BytesUntilLimit() > 0)
      return false;
    in_.DecrementRecursionDepth();
    in_.PopLimit(limit);
    write(tag, inner, to);
    return true;
  }
  bool raw(uint32_t tag, pb::io::CodedOutputStream& to) {
    uint32_t length;
    if (!in_.ReadVarint32(&length) || length > INT_MAX) return false;
    const int offset = in_.CurrentPosition();
    if (length >= kLargeBytes) {
      onnx::StringStringEntryProto where;
      where.set_key(kMapped);
      where.set_value(fmt::format("{} {}", offset, length));
      write(WireFormatLite::MakeTag(kExternalData, WireFormatLite::WIRETYPE_LENGTH_DELIMITED),
            where.SerializeAsString(), to);
      return in_.Skip(static_cast<int>(length));
    }
    std::string data;
    if (!in_.ReadString(&data, static_cast<int>(length))) return false;
    write(tag, data, to);
    return true;
  }
  static void write(uint32_t tag, const std::string& bytes, pb::io::CodedOutputStream& to) {
    to.WriteVarint32(tag);
    to.WriteVarint32(static_cast<uint32_t>(bytes.size()));
    to.WriteString(bytes);
  }

  const uint8_t* base_;
  pb::io::CodedInputStream in_;
};

int64_t wholeNumber(const std::string& text, const std::string& what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    userError("{} is '{}', expected a number of bytes", what, text);
  return value;
}

TensorType typeOf(const onnx::TensorProto& t) {
  TensorType type{dtypeOfNumber(t.data_type()), {}};
  int64_t elements = 1;
  for (const int64_t d : t.dims()) {
    if (d < 0 || (d > 0 && elements > (int64_t{1} << 40) / d))
      userError("tensor '{}' has the dim {}", t.name(), d);
    elements *= d;
    type.shape.push_back(d);
  }
  return type;
}

/// Bytes of a tensor in the file: 4-bit elements are packed there.
size_t packedBytes(const TensorType& type) {
  const size_t n = static_cast<size_t>(type.elements());
  return bits(type.dtype) == 4 ? (n + 1) / 2 : n * bytes(type.dtype);
}

std::shared_ptr<const ConstData> owned(std::string data) {
  auto text = std::make_shared<const std::string>(std::move(data));
  auto out = std::make_shared<ConstData>();
  out->data = text->data();
  out->bytes = text->size();
  out->owner = text;
  return out;
}

/// Data that lies in a part of a mapping: not copied where alignment allows.
std::shared_ptr<const ConstData> part(const std::shared_ptr<const ConstData>& of, size_t offset,
                                      size_t length) {
  auto out = std::make_shared<ConstData>();
  out->data = static_cast<const char*>(of->data) + offset;
  out->bytes = length;
  out->owner = of;
  out->mapped = of->mapped;
  return out;
}

std::shared_ptr<const ConstData> unpacked(const TensorType& type,
                                          std::shared_ptr<const ConstData> data) {
  if (bits(type.dtype) != 4) return data;
  const auto* from = static_cast<const uint8_t*>(data->data);
  std::string out(static_cast<size_t>(type.elements()), '\0');
  for (size_t i = 0; i < out.size(); i++)
    storeInteger(type.dtype, out.data(), static_cast<int64_t>(i),
                 wrapTo(type.dtype, from[i / 2] >> (i % 2 * 4)));
  return owned(std::move(out));
}

template <class Field>
std::shared_ptr<const ConstData> fromNumbers(const TensorType& type, const Field& numbers,
                                             const std::string& name) {
  const int64_t n = type.elements();
  const bool packed = bits(type.dtype) == 4;
  if (numbers.size() != (packed ? (n + 1) / 2 : n))
    userError("tensor '{}' has {} elements, expected {}", name, numbers.size(), n);
  std::string out(static_cast<size_t>(n) * bytes(type.dtype), '\0');
  for (int64_t i = 0; i < n; i++) {
    if (type.dtype == DType::F16 || type.dtype == DType::BF16) {  // the bits of a half
      const auto half = static_cast<uint16_t>(numbers.Get(static_cast<int>(i)));
      std::memcpy(out.data() + 2 * i, &half, 2);
    } else if (isFloat(type.dtype)) {
      storeFloat(type.dtype, out.data(), i, static_cast<double>(numbers.Get(static_cast<int>(i))));
    } else if (packed) {
      storeInteger(type.dtype, out.data(), i,
                   wrapTo(type.dtype, static_cast<int64_t>(numbers.Get(static_cast<int>(i / 2))) >>
                                          (i % 2 * 4)));
    } else {
      storeInteger(type.dtype, out.data(), i,
                   static_cast<int64_t>(numbers.Get(static_cast<int>(i))));
    }
  }
  return owned(std::move(out));
}

}  // namespace

std::shared_ptr<const ConstData> mapFile(const std::string& path) {
  struct Mapping {
    void* data = nullptr;
    size_t bytes = 0;
    ~Mapping() {
      if (bytes) munmap(data, bytes);
    }
  };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
    if (file >= 0) close(file);
    userError("{}: {}", path, file < 0 ? std::strerror(errno) : "not a file");
  }
  auto mapping = std::make_shared<Mapping>();
  void* data = about.st_size ? mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ,
                                    MAP_PRIVATE, file, 0)
                             : nullptr;
  close(file);
  if (data == MAP_FAILED) userError("{}: {}", path, std::strerror(errno));
  mapping->data = data;
  mapping->bytes = static_cast<size_t>(about.st_size);
  auto out = std::make_shared<ConstData>();
  out->data = data;
  out->bytes = mapping->bytes;
  out->owner = mapping;
  out->mapped = true;
  return out;
}

TensorAttribute inlineTensor(const onnx::TensorProto& t) {
  const TensorType type = typeOf(t);
  if (type.elements() == 0) return {type, owned("")};
  if (t.has_raw_data()) {
    if (t.raw_data().size() != packedBytes(type))
      userError("tensor '{}' has {} bytes, expected {}", t.name(), t.raw_data().size(),
                packedBytes(type));
    return {type, unpacked(type, owned(t.raw_data()))};
  }
  switch (type.dtype) {
    case DType::F32: return {type, fromNumbers(type, t.float_data(), t.name())};
    case DType::F64: return {type, fromNumbers(type, t.double_data(), t.name())};
    case DType::I64: return {type, fromNumbers(type, t.int64_data(), t.name())};
    case DType::U32:
    case DType::U64: return {type, fromNumbers(type, t.uint64_data(), t.name())};
    default: return {type, fromNumbers(type, t.int32_data(), t.name())};
  }
}

Model::Model(const std::string& path)
    : path_(path), file_(mapFile(path)), proto_(std::make_unique<onnx::ModelProto>()) {
  if (file_->bytes > INT_MAX) userError("{}: {} bytes, expected at most 2 GiB", path, file_->bytes);
  const auto text = Stripper(file_->data, file_->bytes).strip(Message::Model);
  if (!text || !proto_->ParseFromString(*text))
    userError("{}: not an ONNX model, or cut short", path);
  if (!proto_->has_graph()) userError("{}: no graph in it", path);
  try {
    orderNodes(*proto_);
  } catch (const UserError& e) {
    userError("{}: {}", path, e.what());
  }
}

Model::~Model() = default;

TensorAttribute Model::tensor(const onnx::TensorProto& t) const {
  if (!t.external_data_size()) return inlineTensor(t);
  const TensorType type = typeOf(t);
  std::string location;
  std::optional<int64_t> offset, length;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == kMapped) {
      const size_t space = entry.value().find(' ');
      const auto at = static_cast<size_t>(wholeNumber(entry.value().substr(0, space), "an offset"));
      const auto bytes =
          static_cast<size_t>(wholeNumber(entry.value().substr(space + 1), "a length"));
      if (bytes != packedBytes(type))
        userError("tensor '{}' has {} bytes, expected {}", t.name(), bytes, packedBytes(type));
      if (at > file_->bytes || bytes > file_->bytes - at)
        userError("tensor '{}' lies outside the file", t.name());
      return {type, unpacked(type, part(file_, at, bytes))};
    }
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = wholeNumber(entry.value(), "an offset");
    if (entry.key() == "length") length = wholeNumber(entry.value(), "a length");
  }
  const fs::path relative = fs::path(location).lexically_normal();
  if (location.empty() || relative.is_absolute() || *relative.begin() == "..")
    userError("tensor '{}' is in '{}', expected a file in the model's folder", t.name(), location);
  const auto data = mapFile((fs::path(path_).parent_path() / relative).string());
  const size_t at = static_cast<size_t>(offset.value_or(0)), bytes = packedBytes(type);
  if (length && static_cast<size_t>(*length) != bytes)
    userError("tensor '{}' has {} bytes, expected {}", t.name(), *length, bytes);
  if (at > data->bytes || bytes > data->bytes - at)
    userError("tensor '{}' lies at {} to {} of '{}', which has {} bytes", t.name(), at, at + bytes,
              location, data->bytes);
  return {type, unpacked(type, part(data, at, bytes))};
}

}  // namespace tektite
