#pragma once
#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "ir/kernel.h"

namespace tektite {

/// Lines of MLIR and the values in them: buffers as memrefs, scalars as `arith` and `math`. A value is printed where it is used first in
/// its block.
class MlirText {
 public:
  struct Memory {
    std::string value, type;  ///< "%v4", "memref<16x300xf32, #hivm.address_space<ub>>"
    DType dtype = DType::F32;
    std::vector<Expr> shape;
    std::string space;  ///< the attribute's name; "": the stack
  };
  std::map<std::string, Memory> memory;                    ///< by the kernel's names
  std::unordered_map<std::string, std::string> variables;  ///< loop variables: index values

  std::string take() { return std::move(text_); }
  void line(const std::string& s) { text_ += std::string(2 * depth_, ' ') + s + "\n"; }
  void open(const std::string& s) {
    line(s + " {");
    depth_++;
  }
  void close() {
    depth_--;
    line("}");
  }
  std::string fresh() { return fmt::format("%{}", count_++); }
  /// A line that makes a value.
  std::string made(const std::string& s) {
    std::string v = fresh();
    line(v + " = " + s);
    return v;
  }

  static std::string typeOf(DType);  ///< of elements: signless, as MLIR has them
  static std::string memref(const std::string& shape, DType, const std::string& space,
                            const std::string& layout = "");
  std::string index(const Expr& e) { return scalar(e); }
  std::string scalar(const Expr&);  ///< of the expression's type; i64 as index
  std::string integer(int64_t n) { return made(fmt::format("arith.constant {} : index", n)); }
  std::string loadOf(const std::string& buffer, const std::vector<Expr>& at);
  void store(const std::string& value, const std::string& buffer, const std::vector<Expr>& at);
  /// The part of a buffer that runs along `axes` as its own memref: where it starts, and how far its elements lie apart; nothing where an
  /// index isn't a sum of the variables.
  struct View {
    std::string value, type;
  };
  std::optional<View> view(const Ref&, const std::vector<std::string>& axes,
                           const std::vector<std::string>& sizes);

 private:
  std::string text_;
  size_t depth_ = 1;
  int count_ = 0;
  std::string apply(const Expr& e, const Apply& a);
  std::string castOf(DType from, DType to, const std::string& v);
};

}  // namespace tektite
