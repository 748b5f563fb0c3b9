#include "lower/cut_chains.h"

#include <algorithm>
#include <map>

#include "ops/math/math.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

constexpr int64_t kStripBytes = 2048;  // of one value; a handful of them live in L1

double primitiveLatency(Op op, const Target& target) {
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Fma: return target.fmaLatency;
    case Op::Div: return 11;
    case Op::Sqrt: return 15;
    case Op::Floor:
    case Op::Ceil:
    case Op::Trunc:
    case Op::Round: return 8;
    case Op::Neg:
    case Op::Abs:
    case Op::ToBits:
    case Op::FromBits:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Not: return 1;
    default: return 2;
  }
}

/// Latency of every distinct node, given that of each application.
std::map<Hash, double> latencies(const Expr& root,
                                 const std::function<double(const Apply&, DType)>& own) {
  std::map<Hash, double> at;
  visit(root, [&](const Expr& e) {
    double t = 0;
    if (const Apply* a = e.as<Apply>()) {
      for (const Expr& x : a->args) t = std::max(t, at[x.hash()]);
      t += own(*a, e.type());
    } else if (const Cast* c = e.as<Cast>()) {
      t = at[c->arg.hash()] + 5;
    } else if (e.as<Load>()) {
      t = 5;
    }
    at[e.hash()] = t;
  });
  return at;
}

/// Of an op on variables, through its expansion; computed once an op and type.
class OpLatencies {
 public:
  explicit OpLatencies(const Target& target) : target_(target) {}
  double operator()(const Apply& a, DType type) {
    const auto [it, fresh] = known_.emplace(std::pair(a.op, type), 0);
    if (!fresh) return it->second;
    std::vector<Expr> args;
    for (const Expr& x : a.args) args.push_back(var("a" + std::to_string(args.size()), x.type()));
    const Expr expanded = expandMath(apply(a.op, args), false);
    const auto at =
        latencies(expanded, [&](const Apply& p, DType) { return primitiveLatency(p.op, target_); });
    return it->second = at.at(expanded.hash());
  }

 private:
  const Target& target_;
  std::map<std::pair<Op, DType>, double> known_;
};

const std::vector<Expr>& operandsOf(const Expr& e) {
  static const std::vector<Expr> none;
  const Apply* a = e.as<Apply>();
  return a ? a->args : none;
}

/// The first node down the longest path whose latency is within the limit; further down where what it is made of has other users too, which
/// would compute it again. Null where that is a leaf or cheap.
Expr cutPoint(const Expr& root, const std::map<Hash, double>& at, double limit) {
  std::map<Hash, int> users;
  visit(root, [&](const Expr& e) {
    for (const Expr& x : operandsOf(e)) users[x.hash()]++;
  });
  const auto slowest = [&](const Expr& e) -> Expr {
    const auto& args = operandsOf(e);
    if (args.empty()) return {};
    return *std::max_element(args.begin(), args.end(), [&](const Expr& a, const Expr& b) {
      return at.at(a.hash()) < at.at(b.hash());
    });
  };
  Expr e = root;
  while (at.at(e.hash()) > limit) {
    e = slowest(e);
    if (!e) return {};
  }
  for (Expr below = slowest(e); below && users[below.hash()] > 1; below = slowest(e)) e = below;
  return e.as<Apply>() && e.type() != DType::Bool && at.at(e.hash()) > limit / 4 ? e : Expr();
}

/// Serial tile loops that walk the stage's axes: one element of every axis but the last, strips of the last.
bool addStrips(TileList& list, Stage& stage, int64_t strip) {
  for (size_t i = 0; i < stage.axes.size(); i++) {
    StageAxis& a = stage.axes[i];
    const bool last = i + 1 == stage.axes.size();
    const int64_t step = last ? std::min(strip, a.region.size) : 1;
    if (a.region.size == step) continue;
    if (a.region.size % step && !isConstant(a.region.base, 0))
      return false;  // a strip would reach into the next tile
    const std::string v = "s" + std::to_string(i);
    list.tiles.push_back({v, a.region.size, step, false});
    a.region = {a.region.base + var(v) * Expr(step), step};
  }
  return true;
}

void cut(GroupPlan& plan, TileList& list, const Target& target, OpLatencies& own) {
  Stage stage = list.stages[0];
  if (list.stages.size() != 1 || !stage.accumulators.empty() || stage.inner.size() != 1 ||
      !stage.outer.empty() || stage.axes.empty())
    return;
  const double limit = target.reorderWindow / target.slotsPerCycle;
  const int64_t strip = kStripBytes / bytes(stage.inner[0].value.type());
  if (stage.axes.back().region.size < strip / 4) return;
  std::vector<Expr> parts;
  Expr rest = stage.inner[0].value;
  for (;;) {
    const auto at = latencies(rest, [&](const Apply& a, DType t) { return own(a, t); });
    if (at.at(rest.hash()) <= limit) break;
    const Expr part = cutPoint(rest, at, limit);
    if (!part) break;
    const std::string name = "strip" + std::to_string(parts.size());
    std::vector<Expr> place;
    for (const StageAxis& a : stage.axes) place.push_back(var(a.var));
    rest = rewrite(
        rest, [&](const Expr& e) { return e == part ? load(name, part.type(), place) : Expr(); });
    parts.push_back(part);
  }
  if (parts.empty()) return;
  TileList cutList = list;
  if (!addStrips(cutList, stage, strip)) return;
  stage.depth = static_cast<int>(cutList.tiles.size());
  cutList.stages.clear();
  std::vector<Expr> place, shape;
  std::vector<Region> region;
  for (const StageAxis& a : stage.axes) {
    place.push_back(var(a.var));
    shape.emplace_back(a.extent);
    region.push_back(a.region);
  }
  for (size_t i = 0; i < parts.size(); i++) {
    PlanBuffer b;
    b.kind = PlanBuffer::Scratch;
    b.name = "strip" + std::to_string(i);
    b.type = {parts[i].type(), shape};
    b.region = region;
    b.depth = stage.depth;
    b.space = "l1";
    plan.buffers.push_back(std::move(b));
    Stage s = stage;
    s.inner[0] = {"strip" + std::to_string(i), place, parts[i], "", {}};
    cutList.stages.push_back(std::move(s));
  }
  stage.inner[0].value = rest;
  cutList.stages.push_back(std::move(stage));
  list = std::move(cutList);
}

}  // namespace

double latencyOf(const Expr& e, const Target& target) {
  OpLatencies own(target);
  return latencies(e, [&](const Apply& a, DType t) { return own(a, t); }).at(e.hash());
}

GroupPlan cutChains(GroupPlan plan, const Target& target) {
  if (target.kind != "cpu" || plan.lists.size() != 1) return plan;
  OpLatencies own(target);
  for (TileList& list : plan.lists) cut(plan, list, target, own);
  return plan;
}

}  // namespace tektite
