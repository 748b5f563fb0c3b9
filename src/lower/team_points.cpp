#include "lower/team_points.h"

#include <algorithm>

namespace tektite {

TeamPoints::TeamPoints(const Stage& stage, int threads, const KernelBuffers& buffers,
                       const Ranges& tiles)
    : stage_(stage), threads_(threads), buffers_(buffers), ranges_(tiles) {
  for (const StageAxis& a : stage.axes) {
    const Expr low = simplify(max(a.region.base, 0), ranges_);
    extent_.push_back(simplify(min(a.region.base + Expr(a.region.size), a.extent) - low, ranges_));
    low_.push_back(low);
  }
  ranges_[kThread] = {0, threads - 1};
  thread_ = var(kThread);
}

TeamPoints::InWarps::InWarps(TeamPoints& p)
    : points_(p), before_(p.thread_), range_(p.ranges_[kThread]) {
  p.thread_ = var(kWarp) * Expr(p.warp_) + var(kThread);
  p.ranges_[kThread] = {0, p.warp_ - 1};
  p.warpsInRange();
}
/// The variable stays in indices of registers, also where there is only one warp.
void TeamPoints::warpsInRange() { ranges_[kWarp] = {0, std::max(1, threads_ / warp_ - 1)}; }

TeamPoints::InWarps::~InWarps() {
  points_.thread_ = before_;
  points_.ranges_[kThread] = range_;
}

int64_t TeamPoints::most(int axis) const {
  return std::max<int64_t>(0, std::min(stage_.axes[axis].region.size, stage_.axes[axis].extent));
}

int64_t TeamPoints::pointsOf(const std::vector<int>& axes) const {
  int64_t n = 1;
  for (int i : axes) n *= most(i);
  return n;
}

std::string TeamPoints::loopName(int axis) const {
  const std::string& name = stage_.axes[axis].var;
  return dtypeFromName(name) ? name + "_" : name;
}

void TeamPoints::condition(const Expr& c, std::vector<Expr> facts, std::vector<Expr>& out) const {
  facts.insert(facts.end(), facts_.begin(), facts_.end());
  if (!isConstant(simplify(c, ranges_, facts), 1)) out.push_back(simplify(c, ranges_));
}

void TeamPoints::decode(const Expr& number, const std::vector<int>& axes, int vector,
                        std::vector<Expr>& conditions) {
  int64_t total = pointsOf(axes) / vector, inner = 1;
  condition(lt(number, Expr(total)), {}, conditions);
  const std::vector<Expr> facts = {lt(number, Expr(total))};
  for (size_t i = axes.size(); i-- > 0;) {
    const int axis = axes[i];
    const int step = i + 1 == axes.size() ? vector : 1;
    const int64_t n = most(axis) / step;
    Expr at = floorDiv(number, Expr(inner));
    if (i > 0) at = floorMod(at, Expr(n));
    at = simplify(at, ranges_);
    const Expr extent =
        step > 1 ? simplify(floorDiv(extent_[axis], Expr(step)), ranges_) : extent_[axis];
    condition(lt(at, extent), facts, conditions);
    at_[stage_.axes[axis].var] = low_[axis] + (step > 1 ? at * Expr(step) + var("l") : at);
    inner *= n;
  }
}

void TeamPoints::axisLoop(Block& out, int axis, const Fill& inside) {
  const std::string v = loopName(axis);
  serial(out, v, extent_[axis], most(axis), [&](Block& inner) {
    at_[stage_.axes[axis].var] = low_[axis] + var(v);
    inside(inner);
  });
}

void TeamPoints::serial(Block& out, const std::string& v, const Expr& extent, int64_t atMost,
                        const Fill& inside) {
  if (isConstant(extent, 0)) return;
  ranges_[v] = {0, std::max<int64_t>(atMost - 1, 0)};
  Block body;
  inside(body);
  if (!body.empty()) out.push_back(loop(v, extent, LoopMode::Serial, std::move(body)));
}

void TeamPoints::rounds(Block& out, int64_t total, int64_t perRound, const std::string& v,
                        const Expr& lane, const std::function<void(Block&, const Expr&)>& inside) {
  const int64_t count = (total + perRound - 1) / perRound;
  if (count == 1) return inside(out, lane);
  serial(out, v, count, count, [&](Block& body) { inside(body, var(v) * Expr(perRound) + lane); });
}

void TeamPoints::addIf(Block& out, const std::vector<Expr>& conditions, Block body) {
  if (body.empty()) return;
  Expr all = boolean(true);
  for (const Expr& c : conditions) all = logicalAnd(all, c);
  if (isConstant(all, 1))
    append(out, std::move(body));
  else
    out.push_back({If{all, std::move(body)}, ""});
}

void TeamPoints::append(Block& out, Block more) {
  for (Stmt& s : more) out.push_back(std::move(s));
}

Stmt TeamPoints::team(Block body) const {
  return loop(kThread, threads_, LoopMode::Thread, std::move(body));
}

Stmt TeamPoints::loop(std::string v, Expr extent, LoopMode mode, Block body) {
  return {For{std::move(v), std::move(extent), mode, std::move(body)}, ""};
}

void TeamPoints::add(Block& out, const StageStore& s, const Results& results) const {
  Store store;
  std::vector<Expr> at;
  for (const Expr& e : s.index) at.push_back(translate(e));
  store.targets.push_back({buffers_.names.at(s.buffer), simplified(buffers_.index(s.buffer, at))});
  store.values.push_back(translate(s.value, results));
  store.combine = s.combine;
  Block body;
  body.push_back({std::move(store), ""});
  addIf(out, s.guard ? std::vector<Expr>{translate(s.guard)} : std::vector<Expr>{},
        std::move(body));
}

std::vector<Expr> TeamPoints::simplified(std::vector<Expr> list) const {
  for (Expr& e : list) e = simplify(e, ranges_);
  return list;
}

Expr TeamPoints::translate(const Expr& e, const Results& results) const {
  const Expr out = rewrite(e, [&](const Expr& x) -> Expr {
    if (const Var* v = x.as<Var>()) {
      if (const auto r = results.find(v->name); r != results.end()) return r->second;
      const auto at = at_.find(v->name);
      return at == at_.end() ? Expr() : at->second;
    }
    const Load* l = x.as<Load>();
    if (!l || !buffers_.names.count(l->buffer)) return {};
    return load(buffers_.names.at(l->buffer), x.type(), buffers_.index(l->buffer, l->index));
  });
  return simplify(out, ranges_);
}

}  // namespace tektite
