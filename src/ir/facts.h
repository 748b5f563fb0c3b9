#pragma once
#include <optional>
#include <span>
#include <unordered_map>

#include "ir/expr.h"

namespace tektite {

/// What is known about integer expressions, for many questions about the same variables (each answer is remembered).
/// Indices, dims and loop variables are taken not to wrap; data (loads, operands $i without a range) may, and nothing is
/// concluded from sums of data whose bounds leave +-2^62. `assumed` are bool expressions taken to be true: comparisons of
/// linear forms are reasoned with, anything else only proves itself. The ranges must outlive the object.
class Facts {
 public:
  explicit Facts(const Ranges& ranges, std::span<const Expr> assumed = {});
  Interval bounds(const Expr&);
  Expr simplify(const Expr&);
  bool proves(const Expr& condition);

 private:
  struct Known {
    Interval in;
    bool data;   // depends on a load or on an operand without a range
    bool wraps;  // a sum or product of data that may leave the 64 bits
  };
  struct Parts;

  const Known& known(const Expr&);
  Known compute(const Expr&);
  Known computeApply(const Expr&, const Apply&);
  Interval intervalOf(const Expr&, const Apply&);
  bool wraps(const Expr& e) { return known(e).wraps; }
  const Linear& linear(const Expr&);

  void assume(const Expr& condition, bool truth);
  void assumeNonNegative(Linear);
  Interval boundsOfLinear(const Linear&);
  int64_t lowest(const Linear&, int depth);
  int64_t lowestOfTerm(const Linear& rest, const Expr& term, int64_t by, int depth);
  bool nonNegative(const Linear&, int depth = 3);
  bool holds(const Expr& condition, bool truth);
  std::optional<bool> decide(Op comparison, const Expr& a, const Expr& b);

  Expr step(const Expr&);
  Expr stepIndex(const Expr&, const Apply&);
  Expr stepBool(const Expr&, const Apply&);
  Expr sum(Linear);
  Linear recombined(Linear);
  bool recombineModulo(Linear&, size_t term);
  bool recombineQuotient(Linear&, size_t term);
  Expr divide(const Expr& a, const Expr& by);
  Expr modulo(const Expr& a, const Expr& by);
  Expr divideBy(const Expr& a, int64_t by);
  Expr moduloBy(const Expr& a, int64_t by);
  std::optional<Parts> factored(const Linear&, int64_t within);
  std::optional<int64_t> block(const Linear&, int64_t size);
  Expr compared(Op comparison, const Expr& a, const Expr& b, const Expr& whole);
  Expr atLeastZero(Linear);
  Expr equalZero(Linear, const Expr& whole);
  Expr conjunction(const Expr&);

  const Ranges* ranges_;
  Ranges tighter_;
  std::vector<Linear> nonNegative_;
  std::unordered_map<Hash, bool> truths_;
  std::unordered_map<Hash, Known> known_;
  std::unordered_map<Hash, Linear> linear_;
  std::unordered_map<Hash, Expr> simple_;
  int budget_ = 0;
};

// Arithmetic of linear forms. Coefficients wrap as the sums do.
Linear linearConstant(int64_t);
Linear linearTerm(const Expr&, int64_t coefficient = 1);
Linear plus(const Linear&, const Linear&, int64_t times = 1);  ///< a + b * times
Linear times(const Linear&, int64_t);
/// A total order of expressions that reads well: by the leftmost name (d2 before d10), then by structure.
int compareTerms(const Expr&, const Expr&);

/// Do all indices lie in the shape?
bool provenInside(Facts&, const std::vector<Expr>& shape, const std::vector<Expr>& index);

}  // namespace tektite
