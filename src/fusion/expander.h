#pragma once
#include <vector>

#include "fusion/defs.h"

namespace tektite {

/// Expands definitions at index expressions: what is inlined becomes part of the reader's expression.
class Expander {
 public:
  explicit Expander(const Defs& defs) : defs_(defs) {}

  /// Member `m` of definition d at `index`; reduce axes are the expressions `reduce`.
  Expr at(int d, int m, const std::vector<Expr>& index, const std::vector<Expr>& reduce) {
    const Def& def = defs_.list[d];
    return rewrite(def.access->values[m], [&](const Expr& e) -> Expr {
      if (const Var* v =
              e.as<Var>()) {  // what is put in place may come by again where a fold leaves it alone
        if (v->name[0] != 'd' && v->name[0] != 'r') return {};
        const auto& from = v->name[0] == 'd' ? index : reduce;
        const size_t axis = static_cast<size_t>(std::stoi(v->name.substr(1)));
        return axis < from.size() ? from[axis] : Expr();
      }
      if (const Load* l = e.as<Load>(); l && l->buffer[0] == '$')
        return read(def.operands[std::stoi(l->buffer.substr(1))], l->index);
      return {};
    });
  }
  Expr read(int d, const std::vector<Expr>& index) {
    const Def& def = defs_.list[d];
    if (def.kind == Def::Scalar) return def.scalar;
    if (def.kind == Def::Leaf || def.stored)
      return load(def.name, def.type, normal(index, def.extents));
    Hasher h;
    h.add(d);
    for (const Expr& e : index) h.add(e.hash());
    const Hash key = h.finish();
    if (const auto it = done_.find(key); it != done_.end()) return it->second;
    Expr e = at(d, 0, index, {});
    return done_[key] = def.access->movesData ? simplify(e, ranges) : e;
  }

  Ranges ranges;  // of the axis variables in use

 private:
  std::vector<Expr> normal(const std::vector<Expr>& index,
                           const std::vector<int64_t>& extents) const {
    std::vector<Expr> out;
    for (size_t i = 0; i < index.size(); i++)
      out.push_back(extents[i] == 1 ? Expr(0) : simplify(index[i], ranges));
    return out;
  }
  const Defs& defs_;
  std::unordered_map<Hash, Expr> done_;
};

}  // namespace tektite
