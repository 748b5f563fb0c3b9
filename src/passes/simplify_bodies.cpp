#include <algorithm>

#include "ir/dims.h"
#include "passes/coordinates.h"
#include "passes/pass.h"
#include "passes/rebuild.h"
#include "passes/rules.h"

namespace tektite {
namespace {

bool overCoordinates(const Expr& e) {  // and dims only
  for (const std::string& name : freeVars(e))
    if (name[0] == '$') return false;
  return true;
}

/// Index arithmetic in normal form: the largest parts that no operand has a say in.
Expr withNormalIndices(const Expr& body, Facts& facts) {
  if (overCoordinates(body)) return facts.simplify(body);
  std::unordered_map<Hash, bool> pure;
  visit(body, [&](const Expr& e) {
    bool all = true;
    if (const Var* v = e.as<Var>()) all = v->name[0] != '$';
    if (const Cast* c = e.as<Cast>()) all = pure.at(c->arg.hash());
    if (const Apply* a = e.as<Apply>())
      for (const Expr& x : a->args) all &= pure.at(x.hash());
    pure.emplace(e.hash(), all);
  });
  return rewrite(body, [&](const Expr& e) -> Expr {
    const auto it = pure.find(e.hash());
    return it != pure.end() && it->second && !isFloat(e.type()) ? facts.simplify(e) : Expr();
  });
}

/// Splats become numbers; an operand that comes twice is one, an unused one goes.
void narrowOperands(const Graph& g, Node& n, Expr& body) {
  std::unordered_map<std::string, Expr> first;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const Value v = n.operands[i];
    const Const* c = g.node(v).as<Const>();
    const size_t same = std::find(n.operands.begin(), n.operands.end(), v) - n.operands.begin();
    if (c && c->splat)
      first[operandName(static_cast<int>(i))] = c->splat;
    else if (same != i)
      first[operandName(static_cast<int>(i))] =
          var(operandName(static_cast<int>(same)), g.type(v).dtype);
  }
  if (!first.empty()) body = substitute(body, first);
}

void dropUnused(const Graph& g, Node& n, Expr& body) {
  const std::vector<std::string> used = freeVars(body);
  std::unordered_map<std::string, Expr> renamed;
  std::vector<Value> operands;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    const std::string name = operandName(static_cast<int>(i));
    if (std::find(used.begin(), used.end(), name) == used.end()) continue;
    renamed[name] =
        var(operandName(static_cast<int>(operands.size())), g.type(n.operands[i]).dtype);
    operands.push_back(n.operands[i]);
  }
  if (operands.size() == n.operands.size()) return;
  n.operands = std::move(operands);
  body = substitute(body, renamed);
}

std::vector<Value> simplified(Graph& out, Node n, Numerics mode) {
  const Map* m = n.as<Map>();
  if (!m) return keep(out, std::move(n));
  Expr body = m->body;
  narrowOperands(out, n, body);
  const Coordinates known(n.results[0], out.ranges());
  Facts facts(known.ranges, known.below);
  for (int round = 0; round < 4; ++round) {  // what one of them makes smaller, the other may see
    const Expr before = body;
    body = applyRules(withNormalIndices(body, facts), mode);
    if (body == before) break;
  }
  dropUnused(out, n, body);
  if (body.as<Imm>()) {
    n.operands.clear();
    n.kind = Const{nullptr, body};
    return keep(out, std::move(n));
  }
  const Var* v = body.as<Var>();
  if (v && n.operands.size() == 1 && v->name == operandName(0) &&
      sameShape(out.type(n.operands[0]).shape, n.results[0].shape))
    return {n.operands[0]};
  n.kind = Map{body};
  return keep(out, std::move(n));
}

Graph simplifyBodies(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return simplified(out, withinNested(std::move(n), in, simplifyBodies), Numerics::Strict);
  });
}
Graph simplifyBodiesOrdered(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return simplified(out, withinNested(std::move(n), in, simplifyBodiesOrdered),
                      Numerics::Ordered);
  });
}
Graph simplifyBodiesFast(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return simplified(out, withinNested(std::move(n), in, simplifyBodiesFast), Numerics::Fast);
  });
}

const Pass strict{"simplify-bodies", "apply the exact scalar rules to bodies, splats as numbers",
                  simplifyBodies};
const Pass ordered{"simplify-bodies-ordered", "apply the scalar rules that change last bits",
                   simplifyBodiesOrdered, Numerics::Ordered};
const Pass fast{"simplify-bodies-fast", "apply the scalar rules that follow from algebra",
                simplifyBodiesFast, Numerics::Fast};

}  // namespace
}  // namespace tektite
