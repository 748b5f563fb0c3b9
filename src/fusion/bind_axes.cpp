#include "fusion/bind_axes.h"

#include <algorithm>
#include <set>

#include "fusion/stages.h"

namespace tektite {
namespace {

using Part = std::vector<const StageAxis*>;  // axes that make up an index, outermost first
using Parts = std::vector<Part>;             // one for each index

const StageAxis* axisOf(const Expr& e, const Stage& s) {
  const Var* v = e.as<Var>();
  if (!v) return nullptr;
  const auto axis = std::ranges::find(s.axes, v->name, &StageAxis::var);
  return axis == s.axes.end() ? nullptr : &*axis;
}
/// The axes that an index counts through as a mixed-radix number; nothing where it is another expression.
std::optional<Part> partOf(const Expr& index, const Stage& s) {
  if (const StageAxis* axis = axisOf(index, s)) return Part{axis};
  const Linear linear = linearOf(index);
  if (linear.constant != 0) return {};
  std::vector<std::pair<int64_t, const StageAxis*>> parts;
  for (const auto& [term, coefficient] : linear.terms) {
    const StageAxis* axis = axisOf(term, s);
    if (!axis) return {};
    parts.push_back({coefficient, axis});
  }
  std::ranges::sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  int64_t step = 1;
  for (size_t i = parts.size(); i-- > 0; step *= parts[i].second->extent)
    if (parts[i].first != step) return {};
  Part out;
  for (const auto& [coefficient, axis] : parts) out.push_back(axis);
  return out;
}
/// Of a whole index; nothing where an axis is used twice.
std::optional<Parts> partsOf(const std::vector<Expr>& index, const Stage& s) {
  Parts out;
  Part used;
  for (const Expr& e : index) {
    auto part = partOf(e, s);
    if (!part) return {};
    for (const StageAxis* axis : *part) {
      if (std::ranges::count(used, axis)) return {};
      used.push_back(axis);
    }
    out.push_back(std::move(*part));
  }
  return out;
}
Expr composite(const Part& parts) {
  Expr sum;
  int64_t step = 1;
  for (size_t i = parts.size(); i-- > 0; step *= parts[i]->extent) {
    const Expr part = var(parts[i]->var) * Expr(step);
    sum = sum ? part + sum : part;
  }
  return sum;
}
int64_t total(const Part& parts) {
  int64_t n = 1;
  for (const StageAxis* a : parts) n *= a->extent;
  return n;
}
bool sameExtents(const Part& a, const Part& b) {
  return std::ranges::equal(a, b, {}, &StageAxis::extent, &StageAxis::extent);
}

}  // namespace

std::optional<Binding> bindAxes(const std::vector<Expr>& hostIndex, const Stage& host,
                                const std::vector<Expr>& guestIndex, const Stage& guest) {
  const auto h = partsOf(hostIndex, host), g = partsOf(guestIndex, guest);
  if (!h || !g) return {};
  Binding out;
  for (size_t i = 0; i < h->size(); i++) {
    const Part &mine = (*h)[i], &theirs = (*g)[i];
    if (total(mine) != total(theirs)) return {};
    if (sameExtents(mine, theirs)) {
      for (size_t k = 0; k < mine.size(); k++) out.guest[theirs[k]->var] = var(mine[k]->var);
    } else if (mine.size() == 1) {
      for (const StageAxis* axis : theirs) out.split[mine[0]->var].push_back(*axis);
      out.host[mine[0]->var] = composite(theirs);
    } else if (theirs.size() == 1) {
      out.guest[theirs[0]->var] = composite(mine);
    } else {
      return {};
    }
  }
  return out;
}

bool sameOrder(const std::vector<Expr>& a, const std::vector<Expr>& b, const Stage& s) {
  const auto x = partsOf(a, s), y = partsOf(b, s);
  if (!x || !y) return false;
  Part left, right;
  for (const Part& part : *x) left.insert(left.end(), part.begin(), part.end());
  for (const Part& part : *y) right.insert(right.end(), part.begin(), part.end());
  return left == right;
}
void splitAxes(Stage& s, const Binding& b) {
  if (b.split.empty()) return;
  std::vector<StageAxis> axes;
  for (const StageAxis& a : s.axes) {
    const auto it = b.split.find(a.var);
    if (it == b.split.end()) {
      axes.push_back(a);
      continue;
    }
    for (StageAxis part : it->second) {
      part.reduce = a.reduce;
      axes.push_back(part);
    }
  }
  s.axes = std::move(axes);
}

bool sameIndex(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < a.size(); i++)
    if (!(a[i] == b[i]) && !isConstant(simplify(a[i] - b[i], {}), 0)) return false;
  return a.size() == b.size();
}

size_t Binding::hostAxes() const {
  std::set<std::string> vars;
  for (const auto& [axis, parts] : split) vars.insert(axis);
  for (const auto& [name, e] : guest)
    for (const std::string& v : freeVars(e)) vars.insert(v);
  return vars.size();
}
size_t Binding::guestAxes() const {
  size_t n = guest.size();
  for (const auto& [axis, parts] : split) n += parts.size();
  return n;
}

bool Binding::covers(size_t axes, const Stage& s) const {
  return hostAxes() == axes && guestAxes() == s.axes.size();
}
void addAxes(const Stage& s, Ranges& out) {
  for (const StageAxis& a : s.axes) out[a.var] = {0, std::max<int64_t>(a.extent - 1, 0)};
}

bool Binding::renamesOnly() const {
  const auto isName = [](const auto& to) { return to.second.template as<Var>() != nullptr; };
  return std::ranges::all_of(guest, isName) && std::ranges::all_of(host, isName);
}
std::optional<std::unordered_map<std::string, Expr>> Binding::inverse() const {
  std::unordered_map<std::string, Expr> out;
  for (const auto& [name, e] : guest) {
    const Var* v = e.as<Var>();
    if (!v || !out.emplace(v->name, var(name)).second) return {};
  }
  return host.empty() ? std::optional(std::move(out)) : std::nullopt;
}

Renaming::Renaming(const std::unordered_map<std::string, Expr>& to, const Ranges& ranges)
    : ranges_(ranges), isNone_(to.empty()), placed_(substituting(to)) {
  for (const auto& [name, e] : to) simplifies_ |= !e.as<Var>();
}
Expr Renaming::operator()(const Expr& e) {
  if (isNone_) return e;
  return simplifies_ ? simplify(placed_(e), ranges_) : placed_(e);
}
void Renaming::apply(Stage& s) {
  if (!isNone_) change(s, std::ref(*this));
}

}  // namespace tektite
