#include "fusion/same_values.h"

#include <algorithm>
#include <unordered_map>

#include "fusion/stages.h"

namespace tektite {
namespace {

/// Stages name their axes alike.
std::string opened(const std::string& axis) { return "reduced " + axis; }

/// Compares expressions of two stages; opened variables of axes that the first one reduces stand for axes of the second.
class Comparison {
 public:
  explicit Comparison(const Pair& p)
      : from_(p.walk.in.stages[p.from]), to_(p.walk.in.stages[p.to]) {
    for (size_t a = 0; a < from_.axes.size(); a++)
      if (from_.axes[a].reduce)
        open_[opened(from_.axes[a].var)] = {from_.axes[a].extent,
                                            static_cast<int>(a) == p.walk.axis[p.from]};
    walked_ = to_.axes[static_cast<size_t>(p.walk.axis[p.to])].var;
  }

  bool same(const Expr& a, const Expr& b) {
    if (const Var* v = a.as<Var>(); v && open_.count(v->name)) return binds(v->name, b.as<Var>());
    if (a.type() != b.type()) return false;
    const Load *l = a.as<Load>(), *m = b.as<Load>();
    if (l && m) return l->buffer == m->buffer && all(l->index, m->index);
    const Cast *c = a.as<Cast>(), *d = b.as<Cast>();
    if (c && d) return same(c->arg, d->arg);
    const Apply *x = a.as<Apply>(), *y = b.as<Apply>();
    if (x && y) return x->op == y->op && all(x->args, y->args);
    return a == b;
  }
  std::set<std::string> bound() const {
    std::set<std::string> out;
    for (const auto& [from, to] : bound_) out.insert(to);
    return out;
  }

 private:
  struct Open {
    int64_t extent;
    bool walked;
  };
  const Stage &from_, &to_;
  std::unordered_map<std::string, Open> open_;
  std::unordered_map<std::string, std::string> bound_;
  std::string walked_;

  bool all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    return std::ranges::equal(a, b, [&](const Expr& x, const Expr& y) { return same(x, y); });
  }
  bool binds(const std::string& axis, const Var* to) {
    if (!to) return false;
    if (const auto it = bound_.find(axis); it != bound_.end()) return it->second == to->name;
    const auto at = std::ranges::find(to_.axes, to->name, &StageAxis::var);
    const Open& open = open_.at(axis);
    if (at == to_.axes.end() || at->extent != open.extent || open.walked != (at->var == walked_) ||
        std::ranges::any_of(bound_, [&](const auto& b) { return b.second == to->name; }))
      return false;
    bound_[axis] = to->name;
    return true;
  }
};

}  // namespace

std::optional<std::set<std::string>> reducedAxes(const Pair& p, const Expr& values,
                                                 const std::vector<Expr>& stored,
                                                 const std::vector<Expr>& read, const Expr& value) {
  // what the reducing stage stores at every point, it reduces as the value that it stores
  const std::vector<StageStore>& stores = p.walk.in.stages[p.from].inner;
  const Expr written = rewrite(value, [&](const Expr& e) -> Expr {
    const Load* l = e.as<Load>();
    const auto store = l ? std::ranges::find(stores, l->buffer, &StageStore::buffer) : stores.end();
    return store == stores.end() ? Expr()
                                 : substitute(store->value, axesAt(store->index, l->index));
  });
  auto to = axesAt(stored, read);
  for (const StageAxis& a : p.walk.in.stages[p.from].axes)
    if (a.reduce) to[a.var] = var(opened(a.var));
  Comparison comparison(p);
  if (!comparison.same(substitute(values, to), written)) return {};
  return comparison.bound();
}

}  // namespace tektite
