#pragma once
#include <fmt/format.h>

#include <set>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace tektite::llvm_text {

/// A value in a register: its text, its type, its lanes (0: a scalar). In registers bool is i1, i4 and u4 are i8, and f16 and
/// bf16 are the float that has their value.
struct Value {
  std::string text;
  DType type = DType::I64;
  int lanes = 0;
  bool constant = false;  ///< a number: `real` of a float type, else `integer`
  double real = 0;
  int64_t integer = 0;
  explicit operator bool() const { return !text.empty(); }
};

std::string vectorOf(std::string_view element, int lanes);  ///< "<8 x float>"; 0 lanes: the element
std::string registerType(DType, int lanes = 0);
std::string memoryType(DType, int lanes = 0);  ///< what a load reads: bool is i8, bf16 is i16
std::string memorySuffix(DType, int lanes);    ///< of an intrinsic's name: "v8f32"
inline std::string typeOf(const Value& v) { return registerType(v.type, v.lanes); }
inline std::string typed(const Value& v) { return typeOf(v) + " " + v.text; }
Value integerValue(int64_t, DType = DType::I64);
Value realValue(double, DType);
/// Declared functions, as `declare` lines; shared by the functions of a module.
using Declarations = std::set<std::string>;

/// One LLVM function being written: names, blocks, instructions. Allocas gather in the entry block.
class FunctionText {
 public:
  explicit FunctionText(Declarations& declarations) : declarations_(declarations) {}

  std::string fresh(std::string_view hint) { return fmt::format("{}${}", hint, ++count_); }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  ";
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }
  /// `%hint$12 = ...`; answers its name.
  template <class... Args>
  std::string set(std::string_view hint, fmt::format_string<Args...> format, Args&&... args) {
    std::string name = "%" + fresh(hint);
    fmt::format_to(std::back_inserter(body_), "  {} = ", name);
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
    return name;
  }
  /// A call of a function that is declared on first use; `arguments` with their types.
  std::string call(std::string_view hint, const std::string& result, const std::string& function,
                   const std::string& arguments, const std::string& parameters,
                   std::string_view flags = "");
  void declare(std::string declaration) { declarations_.insert(std::move(declaration)); }
  std::string allocate(std::string_view hint, const std::string& element, int64_t count,
                       int64_t align);
  void comment(std::string_view text);
  void start(const std::string& label);  ///< begins a block; the one before has ended
  void jump(const std::string& label) { line("br label %{}", label); }
  void branch(const std::string& condition, const std::string& yes, const std::string& no) {
    line("br i1 {}, label %{}, label %{}", condition, yes, no);
  }
  const std::string& current() const { return block_; }  ///< label of the block being written
  std::string text(const std::string& header) const;     ///< the whole function

 private:
  Declarations& declarations_;
  std::string entry_, body_, block_ = "start";
  int count_ = 0;
};

}  // namespace tektite::llvm_text
