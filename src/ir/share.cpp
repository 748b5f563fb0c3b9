#include "ir/share.h"

#include <algorithm>
#include <unordered_set>

namespace tektite {
namespace {

constexpr double kLongText = 2000;  // nodes of expressions that are written out whole
constexpr double kWorthAName = 8;   // nodes

std::vector<Expr> childrenOf(const Expr& e) {
  if (const Apply* a = e.as<Apply>()) return a->args;
  if (const Cast* c = e.as<Cast>()) return {c->arg};
  if (const Load* l = e.as<Load>()) return l->index;
  return {};
}

/// What runs in any case: no arm of a `select` is above it.
std::unordered_set<Hash> inNoArm(std::vector<Expr> open) {
  std::unordered_set<Hash> seen;
  while (!open.empty()) {
    const Expr e = std::move(open.back());
    open.pop_back();
    if (!seen.insert(e.hash()).second) continue;
    std::vector<Expr> next = childrenOf(e);
    if (const Apply* a = e.as<Apply>(); a && a->op == Op::Select) next.resize(1);
    open.insert(open.end(), next.begin(), next.end());
  }
  return seen;
}

/// What may be computed ahead of its uses, and be a variable.
class Ahead {
 public:
  Ahead(const std::vector<Expr>& roots, const RunsAnywhere& anywhere) : always_(inNoArm(roots)) {
    for (const Expr& root : roots)
      visit(root, [&](const Expr& e) {
        const Load* l = e.as<Load>();
        Facts f{l != nullptr, !l || anywhere(*l)};
        const Apply* a = e.as<Apply>();
        const bool select = a && a->op == Op::Select;
        const std::vector<Expr> children = childrenOf(e);
        for (size_t i = 0; i < children.size(); i++) {
          const Facts& c = facts_.at(children[i].hash());
          f.reads = f.reads || c.reads;
          f.anywhere = f.anywhere && (c.anywhere || (select && i > 0));
        }
        facts_[e.hash()] = f;
      });
  }

  bool operator()(const Expr& e) const {
    if (!e.as<Apply>() || e.type() == DType::Bool) return false;
    const Facts& f = facts_.at(e.hash());
    return (f.anywhere || always_.count(e.hash())) && (f.reads || e.type() != DType::I64);
  }

 private:
  struct Facts {
    bool reads = false;     ///< memory
    bool anywhere = false;  ///< all its loads but those that its own arms guard
  };
  std::unordered_set<Hash> always_;
  std::unordered_map<Hash, Facts> facts_;
};

Expr withChildren(const Expr& e, std::vector<Expr> children) {
  if (const Apply* a = e.as<Apply>()) return apply(a->op, std::move(children));
  if (e.as<Cast>()) return cast(e.type(), children[0]);
  return load(e.as<Load>()->buffer, e.type(), std::move(children));
}

}  // namespace

std::vector<std::pair<std::string, Expr>> nameShared(std::vector<Expr>& roots,
                                                     const std::string& prefix,
                                                     const RunsAnywhere& anywhere) {
  std::unordered_map<Hash, double> size;
  std::unordered_map<Hash, int> uses;
  std::vector<Expr> order;
  double all = 0;
  for (const Expr& root : roots) {
    visit(root, [&](const Expr& e) {
      if (size.count(e.hash())) return;
      double n = 1;
      for (const Expr& c : childrenOf(e)) n += size[c.hash()], uses[c.hash()]++;
      size[e.hash()] = std::min(n, 1e300);
      order.push_back(e);
    });
    uses[root.hash()]++;
    all += size[root.hash()];
  }
  std::vector<std::pair<std::string, Expr>> out;
  if (all <= kLongText) return out;
  std::optional<Ahead> ahead;
  if (anywhere) ahead.emplace(roots, anywhere);
  std::unordered_map<Hash, Expr> now;     // with names
  std::unordered_map<Hash, double> left;  // nodes to be written then
  for (const Expr& e : order) {
    double n = 1;
    Expr value = e;
    const std::vector<Expr> before = childrenOf(e);
    std::vector<Expr> after;
    for (const Expr& c : before) after.push_back(now.at(c.hash())), n += left[c.hash()];
    if (after != before) value = withChildren(e, std::move(after));
    const bool may = !ahead || (*ahead)(e);
    const bool worth = uses[e.hash()] > 1 && n >= kWorthAName && may;
    if (worth) {
      out.emplace_back(prefix + std::to_string(out.size()), value);
      value = var(out.back().first, e.type());
      n = 1;
    }
    now[e.hash()] = value;
    left[e.hash()] = n;
  }
  for (Expr& root : roots) root = now.at(root.hash());
  return out;
}

}  // namespace tektite
