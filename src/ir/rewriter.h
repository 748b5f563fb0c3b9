#pragma once
#include <functional>
#include <unordered_map>

#include "ir/expr.h"
#include "support/hash_numbers.h"

namespace tektite {

/// Rewrites expressions that share parts, bottom-up: what was rewritten for one of them serves for the others. `replace` sees the node as it
/// was and as it is over rewritten children; null: as it is.
class Rewriter {
 public:
  using Replace = std::function<Expr(const Expr& was, const Expr& now)>;
  explicit Rewriter(Replace replace) : replace_(std::move(replace)) {}
  Expr operator()(const Expr&);

 private:
  const Replace replace_;
  HashNumbers seen_;
  std::vector<Expr> done_;  // of what was seen
};
/// `variables` must outlive it.
Rewriter substituting(const std::unordered_map<std::string, Expr>& variables);

/// Shows every node of several expressions once, children first.
class Walker {
 public:
  explicit Walker(std::function<void(const Expr&)> see) : see_(std::move(see)) {}
  void operator()(const Expr&);

 private:
  const std::function<void(const Expr&)> see_;
  HashNumbers seen_;
};

}  // namespace tektite
