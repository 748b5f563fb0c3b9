#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/type.h"
#include "support/hash.h"

namespace tektite {

/// The scalar ops, in the order of scalar_ops.def.
enum class Op : uint8_t {
#define SCALAR_OP(id, name, infix, precedence, arity, rule, slots) id,
#include "ir/scalar_ops.def"
#undef SCALAR_OP
};
enum class TypeRule : uint8_t { Num, Flt, Int, Bit, Cmp, Sel, Tst, ToBits, FromBits };
struct OpInfo {
  Op op;
  std::string_view name, infix;
  int precedence, arity;
  TypeRule rule;
  double slots;
};
const OpInfo& info(Op);
const OpInfo* opFromName(std::string_view name);
std::span<const OpInfo> allOps();

struct ExprNode;

/// A scalar expression: immutable, cheap to copy, shared (a DAG). Equality is structural, by hash. One grammar serves map
/// bodies, view indices, loop bounds and kernel values. Integers wrap; indices, dims and loop variables are i64.
class Expr {
 public:
  Expr() = default;  ///< no expression
  Expr(int64_t value);
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}
  explicit Expr(std::shared_ptr<const ExprNode> node) : node_(std::move(node)) {}
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode& operator*() const { return *node_; }
  const ExprNode* operator->() const { return node_.get(); }
  const ExprNode* get() const { return node_.get(); }
  DType type() const;
  const Hash& hash() const;
  template <class T>
  const T* as() const;  ///< the node where it is of kind T, else null
  friend bool operator==(const Expr& a, const Expr& b) {
    return a.node_ == b.node_ || (a.node_ && b.node_ && a.hash() == b.hash());
  }

 private:
  std::shared_ptr<const ExprNode> node_;
};

/// The five kinds.
struct Imm {  ///< a number: `real` of a float type, else `integer` (bool: 0 or 1)
  double real;
  int64_t integer;
};
struct Var {  ///< a loop variable, dim, operand ($0) or coordinate (d0)
  std::string name;
};
struct Load {  ///< an element of a buffer; no index: a rank-0 buffer
  std::string buffer;
  std::vector<Expr> index;
};
struct Cast {  ///< a conversion to the node's type (type.h says how)
  Expr arg;
};
struct Apply {
  Op op;
  std::vector<Expr> args;
};
struct ExprNode {
  std::variant<Imm, Var, Load, Cast, Apply> kind;
  DType type;
  Hash hash;
};

inline DType Expr::type() const { return node_->type; }
inline const Hash& Expr::hash() const { return node_->hash; }
template <class T>
const T* Expr::as() const {
  return node_ ? std::get_if<T>(&node_->kind) : nullptr;
}

// Construction. `apply` checks arity and types (InternalError), folds integer and bool constants and the integer identities that
// need no facts (x + 0, x * 1, x * 0, x // 1, x % 1, (x + a) + b, select of a constant, b & true ...). Floats are left alone.
Expr imm(DType type,
         double value);  ///< a number of any type; integer types take the truncated value
Expr immInteger(DType type, int64_t value);  ///< exact for 64-bit integers
inline Expr boolean(bool value) { return immInteger(DType::Bool, value); }
Expr var(std::string name, DType type = DType::I64);
Expr load(std::string buffer, DType type, std::vector<Expr> index);
Expr cast(DType to, Expr arg);  ///< `arg` itself where it has the type
Expr apply(Op op, std::vector<Expr> args);
/// The type an application would have; nothing where the types of the arguments don't fit the op's rule.
std::optional<DType> resultType(Op op, std::span<const DType> args);

inline Expr operator+(Expr a, Expr b) { return apply(Op::Add, {std::move(a), std::move(b)}); }
inline Expr operator-(Expr a, Expr b) { return apply(Op::Sub, {std::move(a), std::move(b)}); }
inline Expr operator*(Expr a, Expr b) { return apply(Op::Mul, {std::move(a), std::move(b)}); }
inline Expr operator/(Expr a, Expr b) { return apply(Op::Div, {std::move(a), std::move(b)}); }
inline Expr floorDiv(Expr a, Expr b) { return apply(Op::FloorDiv, {std::move(a), std::move(b)}); }
inline Expr floorMod(Expr a, Expr b) { return apply(Op::Mod, {std::move(a), std::move(b)}); }
inline Expr lt(Expr a, Expr b) { return apply(Op::Lt, {std::move(a), std::move(b)}); }
inline Expr le(Expr a, Expr b) { return apply(Op::Le, {std::move(a), std::move(b)}); }
inline Expr eq(Expr a, Expr b) { return apply(Op::Eq, {std::move(a), std::move(b)}); }
inline Expr logicalAnd(Expr a, Expr b) { return apply(Op::And, {std::move(a), std::move(b)}); }
inline Expr logicalNot(Expr a) { return apply(Op::Not, {std::move(a)}); }
inline Expr max(Expr a, Expr b) { return apply(Op::Max, {std::move(a), std::move(b)}); }
inline Expr min(Expr a, Expr b) { return apply(Op::Min, {std::move(a), std::move(b)}); }
inline Expr select(Expr c, Expr a, Expr b) {
  return apply(Op::Select, {std::move(c), std::move(a), std::move(b)});
}

// Queries and rewriting. All are memoised over shared subexpressions: linear in the DAG.
std::optional<int64_t> asInteger(const Expr&);  ///< the value of an integer Imm
bool isConstant(const Expr&, int64_t value);    ///< is it this integer Imm?
/// Bottom-up rewriting: `leaf` may answer a replacement for any node (children already rewritten), or nothing to keep it.
Expr rewrite(const Expr&, const std::function<Expr(const Expr&)>& replace);
Expr substitute(const Expr&, const std::unordered_map<std::string, Expr>& variables);
/// Calls `see` once for every distinct node, children first.
void visit(const Expr&, const std::function<void(const Expr&)>& see);
std::vector<std::string> freeVars(const Expr&);  ///< in order of first appearance
std::vector<Expr> loadsOf(
    const Expr&);  ///< every distinct Load node, in order of first appearance (nested first)
double slotsOf(const Expr&);  ///< issue slots of one evaluation, each distinct node counted once

/// Inclusive integer bounds.
struct Interval {
  int64_t low, high;
  bool empty() const { return high < low; }
};
using Ranges = std::unordered_map<std::string, Interval>;
/// Bounds of an integer or bool expression given those of its variables; the type's whole range where nothing is known
/// (clamped to +-2^62). Knows `q = e // c`, `%`, min, max, select, comparisons; loads have the type's range.
Interval boundsOf(const Expr&, const Ranges&);
/// A sum of coefficient * term + constant: how every index is compared. Terms are variables or opaque subexpressions.
struct Linear {
  std::vector<std::pair<Expr, int64_t>> terms;  // no zero coefficient, ordered by leftmost name
  int64_t constant = 0;
  int64_t coefficientOf(const std::string& variable) const;
};
Linear linearOf(const Expr&);
Expr toExpr(const Linear&);
/// Normal form of an index expression given ranges: like terms collected; (a * c + b) // c -> a and % c -> b where 0 <= b < c;
/// comparisons, min, max and select decided where the bounds decide them. Applied to integer subexpressions everywhere.
Expr simplify(const Expr&, const Ranges&);
/// Is the bool expression true for all values of the variables in their ranges?
bool proves(const Expr& condition, const Ranges&);
/// The same where `facts`, bool expressions, are known to be true. Many questions about the same variables: facts.h.
Expr simplify(const Expr&, const Ranges&, std::span<const Expr> facts);
bool proves(const Expr& condition, const Ranges&, std::span<const Expr> facts);

/// Canonical text, parsed back by parseExpr (expr_text.h).
std::string toText(const Expr&);

}  // namespace tektite
