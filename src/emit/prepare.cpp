#include "emit/prepare.h"

#include "ir/conjuncts.h"
#include "ops/math/math.h"
#include "support/overloaded.h"

namespace tektite {

Block expandFunctions(const Block& block, bool fast) {
  Block out;
  for (const Stmt& s : block) {
    Stmt t = s;
    std::visit(overloaded{[&](BlockStmt& b) { b.body = expandFunctions(b.body, fast); },
                          [&](For& f) { f.body = expandFunctions(f.body, fast); },
                          [&](If& i) {
                            i.condition = expandMath(i.condition, fast);
                            i.body = expandFunctions(i.body, fast);
                          },
                          [](Alloc&) {},
                          [&](Store& y) {
                            for (Expr& e : y.values) e = expandMath(e, fast);
                          },
                          [](Copy&) {}, [](Sync&) {}, [](Intrin&) {}},
               t.kind);
    out.push_back(std::move(t));
  }
  return out;
}

LaneCondition splitByLanes(const Expr& condition, const std::function<bool(const Expr&)>& varies) {
  LaneCondition out{boolean(true), boolean(true)};
  for (const Expr& e : conjuncts(condition)) {
    Expr& to = varies(e) ? out.each : out.same;
    to = logicalAnd(to, e);
  }
  return out;
}

Expr copiedValue(const Copy& c, DType type, const std::vector<Expr>& shape) {
  const Expr value = load(c.from.buffer, type, c.from.index);
  if (!c.fill) return value;
  Expr inside = boolean(true);
  for (size_t i = 0; i < c.from.index.size(); i++)
    inside =
        logicalAnd(inside, logicalAnd(le(Expr(0), c.from.index[i]), lt(c.from.index[i], shape[i])));
  return select(inside, value, c.fill);
}

uint64_t buffersRead(const Expr& e, const std::function<uint64_t(const std::string&)>& bitOf,
                     std::unordered_map<Hash, uint64_t>& known) {
  if (const auto it = known.find(e.hash()); it != known.end()) return it->second;
  uint64_t bits = 0;
  const auto all = [&](const std::vector<Expr>& list) {
    for (const Expr& x : list) bits |= buffersRead(x, bitOf, known);
  };
  std::visit(overloaded{[](const Imm&) {}, [](const Var&) {},
                        [&](const Load& l) {
                          bits = bitOf(l.buffer);
                          all(l.index);
                        },
                        [&](const Cast& c) { bits = buffersRead(c.arg, bitOf, known); },
                        [&](const Apply& a) { all(a.args); }},
             e->kind);
  return known[e.hash()] = bits;
}

}  // namespace tektite
