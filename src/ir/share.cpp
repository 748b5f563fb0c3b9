#include "ir/share.h"

#include <algorithm>

namespace tektite {
namespace {

constexpr double kLongText = 2000;  // nodes of expressions that are written out whole
constexpr double kWorthAName = 8;   // nodes

std::vector<Expr> childrenOf(const Expr& e, Sharing sharing) {
  if (const Apply* a = e.as<Apply>()) return a->args;
  if (const Cast* c = e.as<Cast>()) return {c->arg};
  if (const Load* l = e.as<Load>(); l && sharing == Sharing::All) return l->index;
  return {};
}

Expr withChildren(const Expr& e, std::vector<Expr> children) {
  if (const Apply* a = e.as<Apply>()) return apply(a->op, std::move(children));
  if (e.as<Cast>()) return cast(e.type(), children[0]);
  return load(e.as<Load>()->buffer, e.type(), std::move(children));
}

bool mayHaveName(const Expr& e, Sharing sharing) {
  if (sharing == Sharing::All) return true;
  return e.as<Apply>() && e.type() != DType::Bool && e.type() != DType::I64;
}

}  // namespace

std::vector<std::pair<std::string, Expr>> nameShared(std::vector<Expr>& roots,
                                                     const std::string& prefix, Sharing sharing) {
  std::unordered_map<Hash, double> size;
  std::unordered_map<Hash, int> uses;
  std::vector<Expr> order;
  double all = 0;
  for (const Expr& root : roots) {
    visit(root, [&](const Expr& e) {
      if (size.count(e.hash())) return;
      double n = 1;
      for (const Expr& c : childrenOf(e, sharing)) n += size[c.hash()], uses[c.hash()]++;
      size[e.hash()] = std::min(n, 1e300);
      order.push_back(e);
    });
    uses[root.hash()]++;
    all += size[root.hash()];
  }
  std::vector<std::pair<std::string, Expr>> out;
  if (all <= kLongText) return out;
  std::unordered_map<Hash, Expr> now;     // with names
  std::unordered_map<Hash, double> left;  // nodes to be written then
  for (const Expr& e : order) {
    double n = 1;
    Expr value = e;
    const std::vector<Expr> before = childrenOf(e, sharing);
    std::vector<Expr> after;
    for (const Expr& c : before) after.push_back(now.at(c.hash())), n += left[c.hash()];
    if (after != before) value = withChildren(e, std::move(after));
    const bool worth = uses[e.hash()] > 1 && n >= kWorthAName && mayHaveName(e, sharing);
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
