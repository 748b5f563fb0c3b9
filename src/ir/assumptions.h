#pragma once
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"

namespace tektite {

/// Proves bool expressions from what is known along a path: ranges, guards, and what `//`, `%`, min, max and select mean. All facts are
/// linear inequalities over i64 terms (variables, and whatever else isn't linear, taken as it is); a goal is proved by eliminating all
/// terms from the facts and its negation (Fourier and Motzkin), with constants rounded to integers. No wrapping is assumed.
/// Sound, and complete over the rationals up to a size.
class Assumptions {
 public:
  /// low <= variable <= high.
  void range(const std::string& variable, int64_t low, int64_t high);
  /// The variable of a loop: 0 <= variable < extent.
  void loop(const std::string& variable, const Expr& extent);
  /// What a condition says: comparisons of i64, joined with `&`, `|` under `not`. Other parts are left out.
  void assume(const Expr& condition, bool holds = true);
  bool proves(const Expr& condition, bool holds = true);
  /// Can't all that is assumed hold together?
  bool contradictory();

  /// Facts are a stack: those assumed after `mark` are forgotten by `rewind`.
  size_t mark() const { return facts_.size(); }
  void rewind(size_t mark);

 private:
  struct Sum {  // coefficient * term ..., ordered by term; + constant (>= 0 where it is a fact)
    std::vector<std::pair<int, int64_t>> terms;
    int64_t constant = 0;
  };
  static Sum add(const Sum& a, const Sum& b, int64_t scaleB);
  static bool tighten(Sum& s);
  Sum sumOf(const Expr& e);
  Sum termOf(const Expr& e);
  void define(const Expr& e, int term);
  bool provesNonNegative(const Sum& goal) { return refutes(add({{}, -1}, goal, -1)); }
  using System = std::map<std::vector<std::pair<int, int64_t>>,
                          int64_t>;  // the terms of a fact -> its tightest constant
  bool refutes(const Sum& negated);
  bool collect(const Sum& negated, System& system);
  void eliminate(System& system, bool& contradiction) const;
  static void insert(System& system, Sum s, bool& contradiction);
  bool provesCompare(Op op, const Expr& a, const Expr& b, bool holds, int depth);
  bool prove(const Expr& condition, bool holds, int depth);

  std::vector<Sum> facts_;
  std::vector<std::tuple<size_t, std::string, Interval>> ranges_;  // mark, variable, its range
  std::unordered_map<Hash, int> terms_;
  std::vector<std::vector<Sum>> definitions_;  // facts of each term, always true
  std::vector<std::vector<int>> parts_;  // the term, and the terms that its definition speaks of
  std::vector<Expr> opaque_;  // what each term is, where nothing linear is known of it; else null
};

}  // namespace tektite
