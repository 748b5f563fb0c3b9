#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusion/plan.h"
#include "ir/rewriter.h"

namespace tektite {

/// How the axes of a stage, the guest, become those of another one, its host: what a buffer's index in both says.
struct Binding {
  std::unordered_map<std::string, Expr> guest, host;       ///< substitutions
  std::map<std::string, std::vector<StageAxis>> split;     ///< of host axes
  size_t hostAxes() const;                                 ///< so many of the host are bound
  size_t guestAxes() const;                                ///< so many of the guest are bound
  bool covers(size_t hostAxes, const Stage& guest) const;  ///< so many, and all of the guest
  bool renamesOnly() const;                                ///< every substitution is a variable
  /// Where axes only change their names: those of the guest for those of the host.
  std::optional<std::unordered_map<std::string, Expr>> inverse() const;
};
/// Nothing where an index is no sum that counts axes through, each once, or the two count differently.
std::optional<Binding> bindAxes(const std::vector<Expr>& hostIndex, const Stage& host,
                                const std::vector<Expr>& guestIndex, const Stage& guest);
/// Do two indices of one stage count its axes through in the same order?
bool sameOrder(const std::vector<Expr>&, const std::vector<Expr>&, const Stage&);
/// The host's axes by the parts that the binding names.
void splitAxes(Stage& host, const Binding&);
bool sameIndex(const std::vector<Expr>&, const std::vector<Expr>&);

/// The axis variables with their ranges.
void addAxes(const Stage&, Ranges&);

/// Names or expressions in place of axis variables. Both arguments must outlive it.
class Renaming {
 public:
  Renaming(const std::unordered_map<std::string, Expr>& to, const Ranges&);
  bool simplifies() const { return simplifies_; }  ///< it does more than give other names
  Expr operator()(const Expr&);
  void apply(Stage&);

 private:
  const Ranges& ranges_;
  const bool isNone_;
  bool simplifies_ = false;
  Rewriter placed_;
};

}  // namespace tektite
