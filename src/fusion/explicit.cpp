#include <algorithm>
#include <cmath>

#include "fusion/explicit_evaluation.h"

namespace tektite {
namespace {

constexpr double kBeside = 0.02;  // of what main memory's rate hides, or is hidden by: never quite
constexpr double kOverflowSeconds = 1e3;
constexpr int64_t kUnevenRounds = 8;  // of more, one tile that is smaller matters little

}  // namespace

void ExplicitEvaluation::begin(const Tiling& t) {
  out_.tiling = t;
  out_.cost = {};
  out_.warm = out_.overflow = 0;
  inferRegions(g_, t.tile, t.sliding, out_.regions);
  counts_.clear();
  for (size_t j = 0; j < t.tile.size(); j++) {
    const int64_t extent = g_.stages[g_.root].extents[g_.rootAxes[j]];
    counts_.push_back(
        std::max<int64_t>(1, (extent + t.tile[j] - 1) / std::max<int64_t>(t.tile[j], 1)));
  }
  waits_.clear();
  behind_ = total_ = base_ = 0;
}

void ExplicitEvaluation::run(const Tiling& t, Tiled& out) {
  std::swap(out_, out);
  begin(t);
  warm();
  grid();
  depths();
  places();
  sides();
  spaces();
  widen();
  fit();
  const double share = coresWorth();
  chooseDoubled();
  engines();
  Cost& c = out_.cost;
  c.launches = 1;
  const double most = std::max(pipelined(), busiest());
  const Level& main = target_.levels.back();
  const auto moved = static_cast<double>(c.bytesRead + c.bytesWritten);
  double shared = 0;
  if (main.sharedBytesPerSecond > 0) shared = moved / main.sharedBytesPerSecond;
  if (main.bytesPerSecond > 0) shared = std::max(shared, moved / main.bytesPerSecond);
  const double last = lastTiles();
  const double engines =
      most / share + (tiling().sync < 0 ? 0 : behind_ / (last / std::ceil(last / target_.cores)));
  c.seconds =
      target_.launchSeconds + std::max(shared, engines) + kBeside * std::min(shared, engines);
  c.recompute = base_ > 0 ? total_ / base_ : 1;
  const double launch = 0.5 * target_.launchSeconds * target_.hertz * target_.slotsPerCycle *
                        target_.lanes(4) * target_.cores;
  c.mostRecompute = std::max(1.3, base_ > 0 ? 1 + launch / base_ : 1);
  if (out_.overflow > 0) c.seconds += kOverflowSeconds;
  out_.space.resize(space_.size());
  for (size_t b = 0; b < space_.size(); b++)
    out_.space[b] = isBrought(b) ? m_.level(space_[b]).name : "";
  std::swap(out_, out);
}

void ExplicitEvaluation::warm() {
  const int j = tiling().sliding;
  if (j < 0) return;
  for (const auto& axes : out_.regions.stages)
    for (const Span& s : axes)
      if (const int64_t c = s.coefficients[j]; c > 0)
        out_.warm = std::max(out_.warm, (s.base + s.size + c - 1) / c - 1);
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (const int ring = out_.regions.ring[b]; ring >= 0) {
      const Span& s = out_.regions.buffers[b][ring];
      const int64_t c = s.coefficients[j];
      out_.warm = std::max(out_.warm, (s.base + s.size + c - 1) / c - 1);
    }
  for (size_t b = 0; b < g_.buffers.size(); b++)  // results are stored once, by their own tile
    if (g_.output[b] && out_.regions.ring[b] >= 0) out_.overflow += int64_t{1} << 50;
}

void ExplicitEvaluation::grid() {
  Tiling& t = tiling();
  t.grid = 0;
  double tiles = 1;
  const auto inTurn = [&](int j) { return j == t.sliding || j == g_.walked; };
  for (size_t i = 0; i < t.order.size() && target_.cores > 1; i++) {
    const double rounds = std::ceil(tiles / target_.cores);
    if ((t.sync < 0 && tiles >= 0.9 * rounds * target_.cores) || inTurn(t.order[i])) break;
    t.grid = static_cast<int>(i) + 1;
    tiles *= static_cast<double>(counts_[t.order[i]]);
  }
}

double ExplicitEvaluation::coresWorth() const {
  int64_t tiles = 1;
  bool even = true;
  double all = 1;
  const auto extent = [&](int j) { return g_.stages[g_.root].extents[g_.rootAxes[j]]; };
  for (int i = 0; i < tiling().grid; i++) {
    const int j = tiling().order[i];
    tiles *= counts_[j];
    all *= static_cast<double>(extent(j)) / static_cast<double>(tiling().tile[j]);
    even = even && extent(j) % tiling().tile[j] == 0;
  }
  const int64_t rounds = (tiles + target_.cores - 1) / target_.cores;
  if (even || rounds > kUnevenRounds)
    return static_cast<double>(tiles) / static_cast<double>(rounds);
  double most = 0, mine = 0;
  for (int64_t n = 0, core = 0; n < tiles; n++) {
    if (const int64_t now = n * target_.cores / tiles; now != core) core = now, mine = 0;
    double part = 1;
    int64_t rest = n;
    for (int i = tiling().grid; i-- > 0;) {
      const int j = tiling().order[i];
      const int64_t size = tiling().tile[j], first = rest % counts_[j] * size;
      part *= static_cast<double>(std::min(size, extent(j) - first)) / static_cast<double>(size);
      rest /= counts_[j];
    }
    most = std::max(most, mine += part);
  }
  return all / most;
}

int ExplicitEvaluation::depthOf(const std::vector<Span>& spans) const {
  const Tiling& t = out_.tiling;
  int depth = t.grid;
  for (int i = t.grid; i < static_cast<int>(t.order.size()); i++)
    for (const Span& s : spans)
      if (s.dependsOn(t.order[i])) depth = i + 1;
  return depth;
}

void ExplicitEvaluation::depths() {
  out_.depth.clear();
  for (const auto& axes : out_.regions.stages) out_.depth.push_back(depthOf(axes));
  out_.held.assign(g_.buffers.size(), 0);
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    out_.held[b] = depthOf(out_.regions.buffers[b]);
    if (set_.buffers[b].kind == PlanBuffer::Scratch)
      for (size_t s = 0; s < g_.stages.size(); s++)
        for (const Touch& t : g_.stages[s].writes)
          if (t.buffer == static_cast<int>(b)) out_.held[b] = std::min(out_.held[b], out_.depth[s]);
    if (out_.regions.ring[b] >= 0)
      out_.held[b] = std::min(out_.held[b], static_cast<int>(tiling().order.size()) - 1);
  }
}

double ExplicitEvaluation::executions(int depth) const {
  double n = 1;
  for (int i = 0; i < depth; i++) {
    const int j = out_.tiling.order[i];
    n *= static_cast<double>(counts_[j] + (j == out_.tiling.sliding ? out_.warm : 0));
  }
  return n;
}

double ExplicitEvaluation::meanSize(const Span& s, int64_t extent) const {
  const auto whole = static_cast<double>(std::clamp<int64_t>(s.size, 0, extent));
  int tile = -1;
  for (size_t j = 0; j < counts_.size(); j++)
    if (s.coefficients[j]) {
      if (tile >= 0) return whole;
      tile = static_cast<int>(j);
    }
  if (tile < 0)  // the same in every tile
    return static_cast<double>(std::clamp<int64_t>(
        std::min(s.base + s.size, extent) - std::max<int64_t>(s.base, 0), 0, extent));
  const int64_t first = tile == out_.tiling.sliding ? -out_.warm : 0;
  const int64_t last = counts_[tile] - 1;
  if (last >= 4096) return whole;
  const int64_t step = std::abs(s.coefficients[tile]),
                base =
                    s.base + (s.coefficients[tile] < 0 ? s.coefficients[tile] * (first + last) : 0);
  int64_t sum = 0;
  for (int64_t t = first; t <= last; t++) {
    const int64_t begin = base + step * t;
    if (begin >= 0 && begin + s.size <= extent) {  // so are all up to where the axis ends
      const int64_t inside = std::min(last, (extent - s.size - base) / step) - t + 1;
      sum += inside * std::max<int64_t>(0, s.size);
      t += inside - 1;
    } else {
      sum += std::max<int64_t>(0, std::min(begin + s.size, extent) - std::max<int64_t>(begin, 0));
    }
  }
  return static_cast<double>(sum) / static_cast<double>(last + 1 - first);
}

double ExplicitEvaluation::meanPart(const std::vector<Span>& spans,
                                    const std::vector<int64_t>& extents) const {
  double n = 1;
  for (size_t d = 0; d < spans.size(); d++) n *= meanSize(spans[d], extents[d]);
  return n;
}

namespace {

/// Is an index a place for each point: along a dim one axis of the stage, from somewhere on, or none?
bool isPlaced(const Stage& stage, const std::vector<Expr>& index) {
  std::set<int> axes;
  return std::ranges::all_of(index, [&](const Expr& e) {
    const AxisSum sum = axisSum(e, stage);
    if (!sum.known || sum.terms.size() > 1) return false;
    return sum.terms.empty() ||
           (sum.terms[0].second == 1 && axes.insert(sum.terms[0].first).second);
  });
}

}  // namespace

Memories::Memories(const Target& t) {
  for (const Level& l : t.levels) levels_.push_back(&l);
  std::ranges::sort(levels_, {}, &Level::name);
  const auto of = [&](const std::string& name) {
    const auto at = std::ranges::find(levels_, name, &Level::name);
    return at == levels_.end() ? kNone : static_cast<int>(at - levels_.begin());
  };
  main = of("main"), scratch = of(t.scratch), operands = of(t.operands), weights = of(t.weights);
  left = of(t.matrix.left), right = of(t.matrix.right), result = of(t.matrix.result);
  std::set<std::string> names{""};  // of what no path is for
  for (const MemoryPath& p : t.paths) names.insert(p.engine);
  engines_ = names.size();
  for (const Level* from : levels_)
    for (const Level* to : levels_) {
      const MemoryPath* p = t.path(from->name, to->name);
      const auto engine = names.find(p ? p->engine : "");
      ways_.push_back({p, static_cast<size_t>(std::distance(names.begin(), engine))});
    }
}

ExplicitFacts::ExplicitFacts(const StageSet& set, const Target& target)
    : memories(target), stores(set.buffers.size()) {
  for (const PlanBuffer& b : set.buffers) elementBytes.push_back(bytes(b.type.dtype));
  std::unordered_map<std::string_view, int> number;
  for (const PlanBuffer& b : set.buffers) number.emplace(b.name, static_cast<int>(number.size()));
  const auto of = [&](const std::string& name) {
    const auto it = number.find(name);
    return it == number.end() ? -1 : it->second;
  };
  const auto isScratch = [&](int b) {
    return b >= 0 && set.buffers[static_cast<size_t>(b)].kind == PlanBuffer::Scratch;
  };
  const bool split = target.operands != target.scratch;
  for (size_t s = 0; s < set.stages.size(); s++) {
    const Stage& stage = set.stages[s];
    const auto move = moveOf(stage);
    const int from = move ? of(move->load.as<Load>()->buffer) : -1;
    const bool inMain = from >= 0 && !isScratch(from) &&
                        set.buffers[static_cast<size_t>(from)].kind != PlanBuffer::Output;
    moves.push_back(inMain ? of(stage.inner[0].buffer) : -1);
    itself.push_back(storesItself(stage));
    products.push_back(productOf(stage, target));
    Operands& o = operands.emplace_back();
    if (const auto& p = products.back()) {
      o = {of(p->left.as<Load>()->buffer), of(p->right.as<Load>()->buffer), of(addsTo(stage, *p))};
      if (split && (isScratch(o.left) || isScratch(o.right)))
        products.back().reset(), o = {};  // what vector cores make, cube cores can't reach
    }
    std::vector<int>& scaled = this->scaled.emplace_back();
    if (products.back() && scalesSums(stage, *products.back(), target)) {
      scaled.push_back(of(stage.outer[0].buffer));
      for (const Expr& l : loadsOf(stage.outer[0].value))
        scaled.push_back(of(l.as<Load>()->buffer));
    }
    work(stage);
    touched(stage, of);
    size_t write = 0;
    for (const auto* list : {&stage.inner, &stage.outer})
      for (const StageStore& store : *list) {
        const bool plain = !store.guard && store.combine.empty() && isPlaced(stage, store.index);
        if (const int b = of(store.buffer); b >= 0)
          stores[static_cast<size_t>(b)].push_back({s, write, plain});
        write++;
      }
  }
}

void ExplicitFacts::work(const Stage& s) {
  auto &in = inner.emplace_back(), &out = outer.emplace_back();
  VectorStores points, behindSums;
  for (const StageStore& t : s.inner) {
    const bool keeps = !s.accumulators.empty() && t.combine.empty() && !t.guard;
    in.push_back(points.of(t.buffer, t.value, !t.combine.empty()));
    if (keeps && slotsOf(t.value) >= 1)  // in a register, for what is summed up
      in.push_back({1, static_cast<double>(bytes(t.value.type()))});
  }
  for (const Accumulator& a : s.accumulators)
    for (size_t k = 0; k < a.values.size(); k++)
      in.push_back(points.of(a.names[k], a.values[k], true));
  for (const StageStore& t : s.outer)
    out.push_back(behindSums.of(t.buffer, t.value, !t.combine.empty()));
  std::vector<int>& parts = partials.emplace_back();
  for (const Accumulator& a : s.accumulators)
    for (const DType t : a.combine.types) parts.push_back(bytes(t));
}

void ExplicitFacts::touched(const Stage& s,
                            const std::function<int(const std::string&)>& numberOf) {
  std::set<int>&in = here.emplace_back(), &out = behind.emplace_back();
  const auto all = [&](const Expr& e, std::set<int>& to) {
    for (const Expr& l : loadsOf(e)) to.insert(numberOf(l.as<Load>()->buffer));
  };
  for (const bool inner : {true, false})
    for (const StageStore& t : inner ? s.inner : s.outer) {
      std::set<int>& to = inner ? in : out;
      to.insert(numberOf(t.buffer));
      all(t.value, to);
      if (t.guard) all(t.guard, to);
      for (const Expr& i : t.index) all(i, to);
    }
  for (const Accumulator& a : s.accumulators)
    for (const Expr& e : a.values) all(e, in);
}

ExplicitCosts::ExplicitCosts(const GroupShape& g, const StageSet& set,
                             const std::vector<StageWork>& work, const Target& target)
    : evaluation_(std::make_unique<ExplicitEvaluation>(g, set, work, target)) {}
ExplicitCosts::~ExplicitCosts() = default;
void ExplicitCosts::of(const Tiling& t, Tiled& out) { evaluation_->run(t, out); }

}  // namespace tektite
