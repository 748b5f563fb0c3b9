#pragma once
#include <vector>

#include "emit/llvm_function.h"
#include "emit/llvm_text.h"
#include "ir/expr.h"

namespace tektite::llvm_text {

/// Scalar ops and conversions on values, each for all lanes. A scalar beside vectors is broadcast.
class Scalars {
 public:
  Scalars(FunctionText& out, const Target& target, FastMath mode)
      : out_(out), target_(target), mode_(mode) {}

  Value number(const Imm&, DType);
  /// `nonNegative`: both operands of a division are known not to be below 0.
  Value apply(Op, std::vector<Value> args, bool nonNegative = false);
  Value cast(DType to, const Value&);
  Value select(const Value& condition, const Value& yes, const Value& no);
  Value splat(const Value&, int lanes);  ///< itself where it has lanes
  Value lane(const Value&, int at);      ///< one lane of a vector; a scalar is every lane of itself
  Value slice(const Value&, int from,
              int count);  ///< `count` lanes from `from`; one lane: a scalar
  Value insert(const Value& vector, const Value& element, int at);
  Value laneNumbers(int lanes, DType, int64_t step = 1);  ///< 0, step, 2 * step ...
  Value undefined(DType, int lanes);
  Value fromMemory(const std::string& text, DType,
                   int lanes);         ///< what was loaded as memoryType -> in a register
  std::string toMemory(const Value&);  ///< the text of a value of memoryType
  /// Off: no algebra on what is applied from now on, as in `ordered`.
  void allowAlgebra(bool on) { algebra_ = on; }

 private:
  Value set(Op, DType, int lanes, std::string_view instruction, const Value& a, const Value& b);
  Value compare(std::string_view predicate, const Value& a, const Value& b);
  Value integer(Op, const std::vector<Value>&, bool nonNegative);
  Value real(Op, const std::vector<Value>&);
  Value divide(Op, const Value& a, const Value& b, bool nonNegative);
  Value divideUnchecked(Op, const Value& a, const Value& b, bool nonNegative);
  Value shift(Op, const Value& a, const Value& b);
  Value extreme(Op, const Value& a, const Value& b);
  Value intrinsic(std::string_view name, const std::vector<Value>&);
  Value library(Op, const std::vector<Value>&);
  Value fma(const std::vector<Value>&);
  Value ldexp(const Value& x, const Value& n);
  Value saturated(DType to, const Value&);  ///< a float to an integer: truncated, clamped, NaN 0
  Value wrapped(Value);                     ///< i4 and u4 are kept in their range
  Value rounded(DType, Value);              ///< a float to the nearest f16 or bf16, as float
  Value like(const Value& shape, int64_t number);  ///< a constant of its type and lanes
  Value convert(std::string_view instruction, const Value&, const std::string& toType, DType to);
  Value asType(Value v, DType type) {
    v.type = type;
    return v;
  }
  std::string flags() const;

  FunctionText& out_;
  const Target& target_;
  FastMath mode_;
  bool algebra_ = true;
};

}  // namespace tektite::llvm_text
