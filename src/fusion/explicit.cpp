#include "fusion/explicit.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "fusion/cost.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kUnhidden =
    0.1;  // share of the shorter engines' work that doesn't overlap, where operands come ahead
constexpr double kBeside = 0.02;  // of what main memory's rate hides, or is hidden by: never quite
constexpr double kDirectFactor = 8;  // an element that is fetched by itself, in bytes of a block
constexpr double kOverflowSeconds = 1e3;

/// Numbers of one tiling where what tiles work on is copied into explicit memories.
class Evaluation {
 public:
  Evaluation(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
             const Tiling& t, const Target& target)
      : g_(g), set_(set), work_(work), target_(target) {
    out_.tiling = t;
    out_.regions = inferRegions(g, t.tile, t.sliding);
    for (size_t j = 0; j < t.tile.size(); j++) {
      const int64_t extent = g.stages[g.root].extents[g.rootAxes[j]];
      counts_.push_back(
          std::max<int64_t>(1, (extent + t.tile[j] - 1) / std::max<int64_t>(t.tile[j], 1)));
    }
    for (const Stage& s : set.stages) {
      moves_.push_back(moveOf(s).has_value());
      products_.push_back(productOf(s, target));
      if (split() && products_.back())  // what vector cores make, cube cores can't reach
        for (size_t b = 0; b < set.buffers.size(); b++)
          if (isOperand(*products_.back(), b) && isScratch(b)) {
            products_.back().reset();
            break;
          }
    }
  }

  Tiled run() {
    warm();
    grid();
    depths();
    spaces();
    fit();
    double tiles = 1;
    for (int i = 0; i < tiling().grid; i++)
      tiles *= static_cast<double>(counts_[tiling().order[i]]);
    const double share = tiles / std::ceil(tiles / target_.cores);
    engines();
    Cost& c = out_.cost;
    c.launches = 1;
    double most = 0, sum = 0;
    for (const auto& [engine, seconds] : busy_) most = std::max(most, seconds), sum += seconds;
    const Level& main = target_.levels.back();
    const auto moved = static_cast<double>(c.bytesRead + c.bytesWritten);
    double shared = 0;
    if (main.sharedBytesPerSecond > 0) shared = moved / main.sharedBytesPerSecond;
    if (main.bytesPerSecond > 0) shared = std::max(shared, moved / main.bytesPerSecond);
    const double engines = (most + (doubles_ ? kUnhidden : 1) * (sum - most)) / share;
    c.seconds = target_.launchSeconds + target_.latencySeconds + std::max(shared, engines) +
                kBeside * std::min(shared, engines);
    c.recompute = base_ > 0 ? total_ / base_ : 1;
    const double launch = 0.5 * target_.launchSeconds * target_.hertz * target_.slotsPerCycle *
                          target_.lanes(4) * target_.cores;
    c.mostRecompute = std::max(1.3, base_ > 0 ? 1 + launch / base_ : 1);
    if (out_.overflow > 0) c.seconds += kOverflowSeconds;
    return std::move(out_);
  }

 private:
  const GroupShape& g_;
  const StageSet& set_;
  const std::vector<StageWork>& work_;
  const Target& target_;
  Tiled out_;
  std::vector<int64_t> counts_;
  std::vector<bool> moves_;
  std::vector<std::optional<Product>> products_;
  std::map<std::string, double> busy_;  // seconds of one core's engines, were there only one core
  double total_ = 0, base_ = 0;
  bool doubles_ = true;  // is there room for the next tile's operands beside this one's?

  Tiling& tiling() { return out_.tiling; }

  /// Tiles before the first: where all that is made lies outside the tensors, nothing is missed.
  void warm() {
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
  /// The outer loops that give every core something to do are the grid; inner ones share what doesn't depend on them.
  void grid() {
    Tiling& t = tiling();
    t.grid = 0;
    double tiles = 1;
    const auto inTurn = [&](int j) { return j == t.sliding || j == g_.walked; };
    for (size_t i = 0; i < t.order.size() && target_.cores > 1; i++) {
      const double rounds = std::ceil(tiles / target_.cores);
      if (tiles >= 0.9 * rounds * target_.cores || inTurn(t.order[i])) break;
      t.grid = static_cast<int>(i) + 1;
      tiles *= static_cast<double>(counts_[t.order[i]]);
    }
  }
  int depthOf(const std::vector<Span>& spans) const {
    const Tiling& t = out_.tiling;
    int depth = t.grid;
    for (int i = t.grid; i < static_cast<int>(t.order.size()); i++)
      for (const Span& s : spans)
        if (s.dependsOn(t.order[i])) depth = i + 1;
    return depth;
  }
  void depths() {
    for (const auto& axes : out_.regions.stages) out_.depth.push_back(depthOf(axes));
    out_.held.assign(g_.buffers.size(), 0);
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      out_.held[b] = depthOf(out_.regions.buffers[b]);
      if (set_.buffers[b].kind == PlanBuffer::Scratch)
        for (size_t s = 0; s < g_.stages.size(); s++)
          for (const Touch& t : g_.stages[s].writes)
            if (t.buffer == static_cast<int>(b))
              out_.held[b] = std::min(out_.held[b], out_.depth[s]);
      if (out_.regions.ring[b] >= 0)
        out_.held[b] = std::min(out_.held[b], static_cast<int>(tiling().order.size()) - 1);
    }
  }
  double executions(int depth) const {
    double n = 1;
    for (int i = 0; i < depth; i++) {
      const int j = out_.tiling.order[i];
      n *= static_cast<double>(counts_[j] + (j == out_.tiling.sliding ? out_.warm : 0));
    }
    return n;
  }
  /// Mean size over the tiles, clipped to the axis.
  double meanSize(const Span& s, int64_t extent) const {
    const auto whole = static_cast<double>(std::clamp<int64_t>(s.size, 0, extent));
    int tile = -1;
    for (size_t j = 0; j < counts_.size(); j++)
      if (s.coefficients[j]) {
        if (tile >= 0) return whole;
        tile = static_cast<int>(j);
      }
    if (tile < 0) return whole;
    const int64_t first = tile == out_.tiling.sliding ? -out_.warm : 0;
    if (counts_[tile] > 4096) return whole;
    int64_t sum = 0;
    for (int64_t t = first; t < counts_[tile]; t++) {
      const int64_t begin = s.base + s.coefficients[tile] * t;
      sum += std::max<int64_t>(0, std::min(begin + s.size, extent) - std::max<int64_t>(begin, 0));
    }
    return static_cast<double>(sum) / static_cast<double>(counts_[tile] - first);
  }
  double meanPart(const std::vector<Span>& spans, const std::vector<int64_t>& extents) const {
    double n = 1;
    for (size_t d = 0; d < spans.size(); d++) n *= meanSize(spans[d], extents[d]);
    return n;
  }

  // ---- where things lie

  bool isScratch(size_t b) const { return set_.buffers[b].kind == PlanBuffer::Scratch; }
  int64_t heldBytes(size_t b) const {
    int64_t n = bytes(set_.buffers[b].type.dtype);
    for (size_t d = 0; d < g_.buffers[b].size(); d++)
      n *= std::clamp<int64_t>(out_.regions.buffers[b][d].size, 0, g_.buffers[b][d]);
    const int64_t align = target_.level(out_.space[b])->align;
    return (n + align - 1) / align * align;
  }
  void spaces() {
    out_.space.assign(g_.buffers.size(), "");
    out_.sharing.assign(g_.buffers.size(), -1);
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      bool matrix = false, vector = false, gathered = false, stored = true;
      int stores = 0;
      for (size_t s = 0; s < g_.stages.size(); s++) {
        for (const Touch& t : g_.stages[s].reads) {
          if (t.buffer != static_cast<int>(b)) continue;
          if (moves_[s] && !isScratch(b)) continue;
          (products_[s] && isOperand(*products_[s], b) ? matrix : vector) = true;
          for (const AxisSum& d : t.dims) gathered |= !d.known;
        }
        for (const bool inner : {true, false})
          for (const StageStore& store : inner ? set_.stages[s].inner : set_.stages[s].outer)
            if (store.buffer == set_.buffers[b].name) {
              stores++;
              stored &= !store.guard && store.combine.empty() && plain(store.index);
              stored &= out_.depth[s] == out_.held[b] && isOwn(s);
            }
      }
      if (isScratch(b)) {
        out_.space[b] = target_.scratch;
        for (size_t s = 0; s < g_.stages.size(); s++)
          if (products_[s] && addsTo(set_.stages[s], *products_[s]) == set_.buffers[b].name &&
              !split())
            out_.space[b] = target_.matrix.result;
      } else if (set_.buffers[b].kind == PlanBuffer::Output) {
        if (stores == 1 && stored && !storedByUnit(b)) out_.space[b] = target_.scratch;
      } else if ((matrix || vector) && !gathered && !(matrix && vector && split())) {
        const bool weights =
            set_.buffers[b].kind == PlanBuffer::Constant && !target_.weights.empty();
        out_.space[b] = weights ? target_.weights : matrix ? target_.operands : target_.scratch;
      }
    }
    keepApart();
    for (size_t b = 0; b < g_.buffers.size(); b++)
      if (const int into = set_.inPlace[b]; isScratch(b) && into >= 0)
        shareMemory(static_cast<int>(b), into);
  }
  /// Does the matrix unit's own engine take the result to main memory?
  bool storedByUnit(size_t b) const {
    if (!split()) return false;
    for (size_t s = 0; s < g_.stages.size(); s++)
      for (const Touch& t : g_.stages[s].writes)
        if (t.buffer == static_cast<int>(b) && products_[s] && storesItself(set_.stages[s]))
          return true;
    return false;
  }
  /// Sums in the matrix unit's memory, where there is room for them beside a tile of other results.
  void keepApart() {
    int64_t used = 0;
    const Level* level = target_.level(target_.matrix.result);
    for (size_t b = 0; level && b < g_.buffers.size(); b++) {
      if (!isScratch(b) || out_.space[b] != level->name) continue;
      used += heldBytes(b);
      if (used > level->bytes / 2) out_.space[b] = target_.scratch;
    }
  }
  /// Is what a stage makes in one tile exactly what the tile owns?
  bool isOwn(size_t s) const {
    for (size_t a = 0; a < g_.stages[s].extents.size(); a++) {
      const Span& span = out_.regions.stages[s][a];
      const int j = g_.follows[s][a];
      const int64_t tile = j < 0 ? 0 : out_.tiling.tile[j];
      const bool own =
          j >= 0 && span.base == 0 && span.size == tile && span.coefficients[j] == tile;
      if (!own && std::ranges::any_of(span.coefficients, [](int64_t c) { return c != 0; }))
        return false;
    }
    return true;
  }
  bool split() const { return target_.operands != target_.scratch; }
  bool isOperand(const Product& p, size_t b) const {
    const std::string& name = set_.buffers[b].name;
    return p.left.as<Load>()->buffer == name || p.right.as<Load>()->buffer == name;
  }
  static bool plain(const std::vector<Expr>& index) {
    return std::ranges::all_of(index,
                               [](const Expr& e) { return e.as<Var>() || isConstant(e, 0); });
  }
  void shareMemory(int b, int into) {
    if (out_.held[b] != out_.held[into] || out_.space[b] != out_.space[into] ||
        out_.regions.ring[b] >= 0 || out_.regions.ring[into] >= 0)
      return;
    for (size_t d = 0; d < g_.buffers[b].size(); d++) {
      const Span &x = out_.regions.buffers[b][d], &y = out_.regions.buffers[into][d];
      if (x.base != y.base || x.size != y.size || x.coefficients != y.coefficients) return;
    }
    out_.sharing[b] = out_.sharing[into] >= 0 ? out_.sharing[into] : into;
  }
  /// Where a tile of results waits for vector instructions.
  int64_t exchangeBytes() const {
    for (size_t s = 0; s < g_.stages.size(); s++)
      if (products_[s] && !storesItself(set_.stages[s]))
        return target_.level(target_.scratch)->bytes / kExchangeShare;
    return 0;
  }
  /// The stages in the order of the text.
  std::vector<int> places() const {
    std::vector<int> order(g_.stages.size()), place(g_.stages.size());
    for (size_t s = 0; s < order.size(); s++) order[s] = static_cast<int>(s);
    std::ranges::stable_sort(order, {}, [&](int s) {
      const bool after = set_.stages[s].after;
      return std::pair(after, after ? -out_.depth[s] : out_.depth[s]);
    });
    for (size_t i = 0; i < order.size(); i++) place[order[i]] = static_cast<int>(i);
    return place;
  }
  /// When each buffer lives, in places of stages. A buffer that a loop inside of its block uses lives as long as the loop.
  std::vector<Life> lives() const {
    const std::vector<int> place = places();
    std::vector<Life> out(g_.buffers.size(), {INT_MAX, -1});
    const auto extend = [](Life& l, int p) {
      l.first = std::min(l.first, p);
      l.last = std::max(l.last, p);
    };
    for (size_t b = 0; b < out.size(); b++)
      for (size_t s = 0; s < g_.stages.size(); s++) {
        const auto touches = [&](const std::vector<Touch>& list) {
          return std::ranges::any_of(list, [&](const Touch& t) {
            return t.buffer == static_cast<int>(b) || out_.sharing[t.buffer] == static_cast<int>(b);
          });
        };
        if (!touches(g_.stages[s].reads) && !touches(g_.stages[s].writes)) continue;
        extend(out[b], place[s]);
        for (size_t k = 0; k < g_.stages.size() && out_.depth[s] > out_.held[b]; k++)
          if (out_.depth[k] > out_.held[b]) extend(out[b], place[k]);
      }
    std::map<int, std::vector<size_t>> byDepth;
    for (size_t b = 0; b < out.size(); b++)
      if (!out_.space[b].empty() && out_.sharing[b] < 0 && out[b].last >= 0)
        byDepth[out_.held[b]].push_back(b);
    for (const auto& [depth, buffers] : byDepth) {
      std::vector<Life> list;
      for (size_t b : buffers) list.push_back(out[b]);
      nestLives(list);
      for (size_t i = 0; i < list.size(); i++) out[buffers[i]] = list[i];
    }
    return out;
  }
  std::map<std::string, int64_t> peaks() const {
    const std::vector<Life> live = lives();
    std::map<std::string, int64_t> out;
    for (int p = 0; p < static_cast<int>(g_.stages.size()); p++) {
      std::map<std::string, int64_t> now;
      for (size_t b = 0; b < live.size(); b++)
        if (!out_.space[b].empty() && out_.sharing[b] < 0 && live[b].first <= p &&
            p <= live[b].last)
          now[out_.space[b]] += heldBytes(b);
      for (const auto& [space, n] : now) out[space] = std::max(out[space], n);
    }
    return out;
  }
  /// Where all doesn't fit, the largest operands stay in main memory.
  void fit() {
    for (;;) {
      const auto used = peaks();
      int largest = -1;
      for (auto [name, n] : used) {
        if (name == target_.scratch && split()) n += exchangeBytes();
        if (n <= target_.level(name)->bytes) continue;
        for (size_t b = 0; b < g_.buffers.size(); b++)
          if (out_.space[b] == name && !isScratch(b) &&
              (largest < 0 || heldBytes(b) > heldBytes(static_cast<size_t>(largest))))
            largest = static_cast<int>(b);
      }
      if (largest >= 0) {
        out_.space[largest].clear();
        continue;
      }
      for (auto [name, n] : used) {
        if (name == target_.scratch && split()) n += exchangeBytes();
        out_.overflow += std::max<int64_t>(0, n - target_.level(name)->bytes);
        if (name == target_.scratch) out_.cost.scratchBytes = n;
        for (size_t b = 0; b < g_.buffers.size(); b++)
          if (out_.space[b] == name && set_.buffers[b].kind != PlanBuffer::Output &&
              !isScratch(b) && out_.held[b] > tiling().grid && out_.regions.ring[b] < 0)
            n += heldBytes(b);
        doubles_ = doubles_ && n <= target_.level(name)->bytes;
      }
      break;
    }
    for (size_t b = 0; b < g_.buffers.size(); b++)
      if (out_.sharing[b] >= 0) out_.space[b] = out_.space[out_.sharing[b]];
  }

  // ---- what engines do

  void moveBytes(const std::string& from, const std::string& to, double times, double each) {
    const MemoryPath* p = target_.path(from, to);
    if (!p) p = target_.path("main", target_.scratch);
    busy_[p->engine] +=
        times * (p->startSeconds / p->channels + (each + p->halfBytes) / p->bytesPerSecond);
  }
  void engines() {
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      if (isScratch(b) || out_.space[b].empty()) continue;
      const bool output = set_.buffers[b].kind == PlanBuffer::Output;
      std::vector<Span> part = out_.regions.buffers[b];
      const int ring = out_.regions.ring[b];
      int depth = out_.held[b];
      if (ring >= 0) {
        part[ring] = newest(part[ring], tiling().sliding);
        depth = depthOf(part);
      }
      const double each = meanPart(part, g_.buffers[b]) * bytes(set_.buffers[b].type.dtype);
      count(output, executions(depth) * each);
      if (output)
        moveBytes(out_.space[b], "main", executions(depth), each);
      else
        moveBytes("main", out_.space[b], executions(depth), each);
    }
    for (size_t s = 0; s < g_.stages.size(); s++) stage(s);
  }
  void count(bool written, double n) {
    (written ? out_.cost.bytesWritten : out_.cost.bytesRead) += std::llround(n);
  }

  void stage(size_t s) {
    const StageShape& shape = g_.stages[s];
    const StageWork& w = work_[s];
    const double runs = executions(out_.depth[s]);
    double points = runs, outer = runs, whole = 1;
    for (size_t a = 0; a < shape.extents.size(); a++) {
      const double mean = meanSize(out_.regions.stages[s][a], shape.extents[a]);
      points *= mean;
      whole *= static_cast<double>(shape.extents[a]);
      if (!shape.reduce[a]) outer *= mean;
    }
    total_ += points * (w.slots + w.loads + 1);
    base_ += whole * (w.slots + w.loads + 1);
    direct(s, points, outer);
    const double cycle = 1 / target_.hertz;
    const auto vector = [&](double n, double slots) {
      busy_["vector"] +=
          cycle * (runs * std::max(1.0, slots) * target_.vectorStartCycles +
                   n * slots * w.elementBytes / target_.vectorBytes / target_.slotsPerCycle);
    };
    if (moves_[s] && movesFromMain(s, runs)) return;
    if (products_[s]) {
      product(s, runs);
      if (split() && !storesItself(set_.stages[s])) {  // to the vector cores, through main memory
        const double size = outer * bytes(set_.stages[s].accumulators[0].combine.types[0]);
        count(true, size);
        count(false, size);
        moveBytes(target_.matrix.result, "main", runs, size / runs);
        moveBytes("main", target_.scratch, runs, size / runs);
      } else if (split()) {
        return;
      }
      const std::string sums = addsTo(set_.stages[s], *products_[s]);
      for (const Touch& t : shape.writes)
        if (!sums.empty() && out_.space[t.buffer] == target_.matrix.result) return;
      return vector(outer, w.outerSlots + 1);
    }
    vector(points, std::max(1.0, w.slots));
    if (w.outerSlots > 0 || w.outerStores > 0) vector(outer, w.outerSlots + 1);
    out_.cost.slots += points * w.slots + outer * w.outerSlots;
  }
  /// Elements that no tile has a copy of.
  void direct(size_t s, double points, double outer) {
    const auto one = [&](const Touch& t, bool written, double n) {
      if (isScratch(t.buffer) || !out_.space[t.buffer].empty() || (moves_[s] && !written)) return;
      const double size = n * bytes(set_.buffers[t.buffer].type.dtype);
      count(written, size);
      if (written)
        moveBytes(target_.scratch, "main", 1, size * kDirectFactor);
      else
        moveBytes("main", target_.scratch, 1, size * kDirectFactor);
    };
    for (const Touch& t : g_.stages[s].reads) one(t, false, points);
    for (const Touch& t : g_.stages[s].writes)
      if (storedByUnit(static_cast<size_t>(t.buffer))) {
        const double size = outer * bytes(set_.buffers[t.buffer].type.dtype);
        count(true, size);
        moveBytes(target_.matrix.result, "main", 1, size);
      } else {
        one(t, true, outer);
      }
  }
  bool movesFromMain(size_t s, double runs) {
    const Touch& t = g_.stages[s].reads[0];
    if (isScratch(t.buffer)) return false;
    double each = bytes(set_.buffers[t.buffer].type.dtype);
    for (size_t d = 0; d < t.dims.size(); d++) {
      const int64_t extent = g_.buffers[t.buffer][d];
      each *= meanSize(spanOf(t.dims[d], out_.regions.stages[s], extent), extent);
    }
    count(false, runs * each);
    moveBytes("main", target_.scratch, runs, each);
    return true;
  }
  void product(size_t s, double runs) {
    const Product& p = *products_[s];
    const StageShape& shape = g_.stages[s];
    const auto size = [&](const std::vector<int>& axes) {
      double n = 1;
      for (int a : axes) n *= meanSize(out_.regions.stages[s][a], shape.extents[a]);
      return n;
    };
    const MatrixUnit& unit = target_.matrix;
    const int element = bytes(p.left.type());
    const double batch = size(p.batch), m = size(p.rows), n = size(p.columns), k = size(p.depth);
    const double blocks = std::ceil(m / unit.rows) * std::ceil(n / unit.columns) *
                          std::ceil(k * element / unit.depthBytes) * (element >= 4 ? unit.wide : 1);
    busy_[unit.engine] +=
        runs * batch * (unit.startCycles + blocks) / (unit.hertz > 0 ? unit.hertz : target_.hertz);
    for (const bool left : {true, false}) {
      const std::string& to = left ? unit.left : unit.right;
      const MemoryPath* path = target_.path(target_.operands, to);
      if (path)
        busy_[path->engine] += runs * batch * (left ? m : n) * k * element / path->bytesPerSecond;
    }
    out_.cost.flops += 2 * runs * batch * m * n * k;
  }
};

}  // namespace

Tiled evaluateExplicit(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
                       const Tiling& t, const Target& target) {
  return Evaluation(g, set, work, t, target).run();
}

}  // namespace tektite
