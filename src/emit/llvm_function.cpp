#include "emit/llvm_function.h"

#include <bit>

namespace tektite::llvm_text {

std::string vectorOf(std::string_view element, int lanes) {
  return lanes ? fmt::format("<{} x {}>", lanes, element) : std::string(element);
}

std::string registerType(DType t, int lanes) {
  const auto element = [&]() -> std::string {
    switch (t) {
      case DType::Bool: return "i1";
      case DType::F16:
      case DType::BF16:
      case DType::F32: return "float";
      case DType::F64: return "double";
      default: return fmt::format("i{}", bytes(t) * 8);
    }
  };
  return vectorOf(element(), lanes);
}
std::string memoryType(DType t, int lanes) {
  if (t == DType::Bool) return vectorOf("i8", lanes);
  if (t == DType::F16) return vectorOf("half", lanes);
  return t == DType::BF16 ? vectorOf("i16", lanes) : registerType(t, lanes);
}

std::string memorySuffix(DType t, int lanes) {
  const std::string element =
      isFloat(t) && t != DType::BF16 ? fmt::format("f{}", bits(t)) : memoryType(t);
  return lanes ? fmt::format("v{}{}", lanes, element) : element;
}
Value integerValue(int64_t value, DType type) {
  Value v{std::to_string(value), type, 0, true, 0, value};
  if (type == DType::Bool) v.text = value ? "true" : "false";
  return v;
}
Value realValue(double value, DType type) {
  return {fmt::format("0x{:016X}", std::bit_cast<uint64_t>(value)), type, 0, true, value, 0};
}

std::string FunctionText::call(std::string_view hint, const std::string& result,
                               const std::string& function, const std::string& arguments,
                               const std::string& parameters, std::string_view flags) {
  declare(fmt::format("declare {} @{}({})", result, function, parameters));
  if (result == "void") {
    line("call void @{}({})", function, arguments);
    return {};
  }
  return set(hint, "call{} {} @{}({})", flags, result, function, arguments);
}

std::string FunctionText::allocate(std::string_view hint, const std::string& element, int64_t count,
                                   int64_t align) {
  std::string name = "%" + fresh(hint);
  fmt::format_to(std::back_inserter(entry_), "  {} = alloca [{} x {}], align {}\n", name, count,
                 element, align);
  return name;
}

void FunctionText::comment(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    body_ += fmt::format("  ; {}\n", text.substr(0, end));
    text = end == std::string_view::npos ? "" : text.substr(end + 1);
  }
}

void FunctionText::start(const std::string& label) {
  block_ = label;
  body_ += label + ":\n";
}

std::string FunctionText::text(const std::string& header) const {
  return header + " {\nstart:\n" + entry_ + body_ + "}\n";
}

}  // namespace tektite::llvm_text
