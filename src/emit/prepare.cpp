#include "emit/prepare.h"

#include "ops/math/math.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

void conjuncts(const Expr& e, std::vector<Expr>& out) {
  const Apply* a = e.as<Apply>();
  if (!a || a->op != Op::And) return out.push_back(e);
  for (const Expr& x : a->args) conjuncts(x, out);
}

}  // namespace

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
  std::vector<Expr> all;
  conjuncts(condition, all);
  LaneCondition out{boolean(true), boolean(true)};
  for (const Expr& e : all) {
    Expr& to = varies(e) ? out.each : out.same;
    to = logicalAnd(to, e);
  }
  return out;
}

}  // namespace tektite
