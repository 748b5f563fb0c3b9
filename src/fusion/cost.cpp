#include "fusion/cost.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "fusion/span_sum.h"
#include "ir/dot.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kPeakShare =
    0.75;  // of the FMA peak that contractions reach (peers/README: 66-88 %)
constexpr double kUnhidden =
    0.4;  // share of the shorter of computing and moving that doesn't overlap
constexpr double kSecondsPerTile = 20e-9;  // dealing a tile and entering its loops
constexpr double kSecondsPerTeam = 1e-9;   // a GPU's hardware deals one, while others run
constexpr double kRegisterRows = 8;        // of a contraction's register tile
constexpr double kRowCycles = 6;           // entering an innermost loop
constexpr double kRecomputeBudget = 1.3;   // work of a plan over that of computing all once
constexpr double kLaunchShare = 0.5;       // of a launch that more recomputation may take
constexpr double kJoinCycles = 16;         // joining the lanes of an accumulator
// GPUs: products by teams of threads
constexpr double kTeam = 256, kTeamSquare = 64;  // threads; results that one holds at most
constexpr double kTeamRows = 4, kTeamBlock = 128;
constexpr double kTeamsAtOnce = 8;    // that a core runs
constexpr double kSharedReads = 1.2;  // an operand read from shared memory, in multiplications
constexpr double kStagedSlots = 8;    // an element brought there
constexpr int kLineBytes = 64;
constexpr double kMatrixGain = 8, kMatrixStagedSlots = 1.6;  // the same by matrix instructions
constexpr double kDirectSlots = 4;  // a multiplication whose operands a thread loads for itself

int64_t sizeOf(const Span& s, int64_t extent) { return std::clamp<int64_t>(s.size, 0, extent); }

double bytesOf(const std::vector<int64_t>& extents, int elementBytes) {
  double n = elementBytes;
  for (const int64_t e : extents) n *= static_cast<double>(e);
  return n;
}

/// Products of an issue slot that could take one of 32 bits; pairs need a second one to add up.
double productsOfBytes(const Target& t) {
  const int group = dotGroup(t, DType::U8, DType::I8);
  return group == 4 ? group : group / 2.0;
}
}  // namespace

/// Numbers of one tiling, gathered stage by stage. Its memory serves for the next.
class TilingCosts::Evaluation {
 public:
  Evaluation(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
             const Target& target)
      : g_(g),
        set_(set),
        work_(work),
        target_(target),
        l1_(static_cast<double>(capacity("l1", 0)) / 2),
        l2_(target.kind == "gpu"  // what a team's shared memory doesn't hold lies in main
                ? std::max(l1_, static_cast<double>(capacity("l1", 0)) - kPanelBytes)
                : static_cast<double>(capacity("l2", 1)) * 0.6),
        near_(static_cast<double>(target.kind == "gpu" ? capacity("l1", 0) : capacity("l2", 1))) {
    if (target.hasExplicitMemory()) explicit_.emplace(g, set, work, target);
    out_.space.resize(g.buffers.size());
    readers_.resize(g.buffers.size());
    for (const StageShape& s : g.stages) {
      std::set<int> read;
      for (const Touch& t : s.reads) read.insert(t.buffer);
      for (int b : read) readers_[static_cast<size_t>(b)]++;
    }
  }
  int64_t steps = 0;

  Tiled& of(const Tiling& t) {
    steps += static_cast<int64_t>(g_.stages.size());
    if (explicit_) {
      explicit_->of(t, out_);
      return out_;
    }
    out_.tiling = t;
    out_.cost = {};
    inferRegions(g_, t.tile, -1, out_.regions);
    counts_.clear();
    for (size_t j = 0; j < t.tile.size(); j++) {
      const int64_t extent = g_.stages[g_.root].extents[g_.rootAxes[j]];
      counts_.push_back(
          std::max<int64_t>(1, (extent + t.tile[j] - 1) / std::max<int64_t>(t.tile[j], 1)));
    }
    total_ = base_ = 0;
    outgrown_ = false;
    evaluate();
    return out_;
  }

 private:
  void evaluate() {
    depths();
    scratch();
    double parallel = 0, last = 0;
    for (size_t s = 0; s < g_.stages.size(); s++)
      (t_.sync >= 0 && static_cast<int>(s) > t_.sync ? last : parallel) += stageSeconds(s);
    double tiles = 1;
    for (int i = 0; i < t_.grid; i++) tiles *= static_cast<double>(counts_[t_.order[i]]);
    // Cores that work all the time: tiles are dealt in contiguous runs, and the last along the outermost axis may be short.
    double share = tiles / std::ceil(tiles / target_.cores);
    if (t_.grid > 0 && t_.sync < 0) {
      const int j = t_.order[0];
      const double extent = static_cast<double>(g_.stages[g_.root].extents[g_.rootAxes[j]]);
      share = std::max(1.0, share * extent / static_cast<double>(t_.tile[j] * counts_[j]));
    }
    const double move = moves(share);
    const double compute = parallel / share + last;
    Cost& c = out_.cost;
    c.launches = 1;
    const bool teams = target_.kind == "gpu";
    c.seconds = target_.launchSeconds +
                std::max({compute, move, teams ? tiles * kSecondsPerTeam : 0}) +
                kUnhidden * std::min(compute, move) + (teams ? 0 : tiles * kSecondsPerTile / share);
    c.recompute = base_ > 0 ? total_ / base_ : 1;
    const double launch = kLaunchShare * target_.launchSeconds * target_.hertz *
                          target_.slotsPerCycle * target_.lanes(4) * target_.cores;
    c.mostRecompute = std::max(kRecomputeBudget, base_ > 0 ? 1 + launch / base_ : 1);
  }

  const GroupShape& g_;
  const StageSet& set_;
  const std::vector<StageWork>& work_;
  const Target& target_;
  const double l1_, l2_;      // bytes of scratch that near memories hold
  const double near_;         // bytes that a core remembers from stage to stage
  std::vector<int> readers_;  // [buffer] stages that read it
  std::optional<ExplicitCosts> explicit_;
  Tiled out_;
  const Tiling& t_ = out_.tiling;
  std::vector<int64_t> counts_;
  std::vector<std::pair<double, int>> sizes_;
  double total_ = 0, base_ = 0;
  bool outgrown_ = false;  // scratch is more than the tile's share of the caches

  void depths() {
    out_.depth.clear();
    for (const auto& axes : out_.regions.stages) {
      int depth = t_.grid;
      for (int i = t_.grid; i < static_cast<int>(t_.order.size()); i++)
        for (const Span& a : axes)
          if (a.dependsOn(t_.order[i])) depth = i + 1;
      out_.depth.push_back(depth);
    }
  }
  double executions(int depth) const {
    double n = 1;
    for (int i = 0; i < depth; i++) n *= static_cast<double>(counts_[t_.order[i]]);
    return n;
  }
  /// Mean size of a span over the tiles, clipped to its axis, each rounded up to `unit`.
  double meanSize(const Span& s, int64_t extent, int64_t unit = 1) const {
    const auto rounded = [&](int64_t n) { return (n + unit - 1) / unit * unit; };
    int tile = -1;
    for (size_t j = 0; j < counts_.size(); j++)
      if (s.coefficients[j]) {
        if (tile >= 0) return static_cast<double>(rounded(sizeOf(s, extent)));
        tile = static_cast<int>(j);
      }
    if (tile < 0 || counts_[tile] > 256) return static_cast<double>(rounded(sizeOf(s, extent)));
    return static_cast<double>(sumOver(s, s.coefficients[tile], counts_[tile], extent, unit)) /
           static_cast<double>(counts_[tile]);
  }

  void scratch() {
    out_.sharing.assign(g_.buffers.size(), -1);
    sizes_.clear();
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      if (set_.buffers[b].kind != PlanBuffer::Scratch) continue;
      double n = bytes(set_.buffers[b].type.dtype);
      for (size_t d = 0; d < g_.buffers[b].size(); d++)
        n *= static_cast<double>(sizeOf(out_.regions.buffers[b][d], g_.buffers[b][d]));
      if (const int into = set_.inPlace[b]; into >= 0 && sharesMemory(static_cast<int>(b), into))
        continue;
      sizes_.push_back({n, static_cast<int>(b)});
    }
    std::ranges::sort(sizes_);
    double used = 0, outside = 0, largest = 0;  // of a team's memory
    for (const auto& [n, b] : sizes_) {
      used += n;
      if (used > l2_) outside += n;
      largest = std::max(largest, bytesOf(g_.buffers[b], bytes(set_.buffers[b].type.dtype)));
      out_.space[b] = used <= l1_ ? "l1" : "l2";
      outgrown_ = outgrown_ || used > l2_;
    }
    out_.cost.scratchBytes = static_cast<int64_t>(used);
    out_.overflow = std::max<int64_t>(0, out_.cost.scratchBytes - scratchLevel(target_).bytes);
    out_.outside =
        target_.kind == "gpu" ? std::max(0.0, outside * executions(t_.grid) - largest) : 0;
    for (size_t b = 0; b < g_.buffers.size(); b++)
      if (out_.sharing[b] >= 0) out_.space[b] = out_.space[out_.sharing[b]];
  }
  /// May buffer b lie where `into` lay? Where both hold the same part for the same time.
  bool sharesMemory(int b, int into) {
    if (out_.depth[g_.writer[b]] != out_.depth[g_.writer[into]]) return false;
    for (size_t d = 0; d < g_.buffers[b].size(); d++) {
      const Span &x = out_.regions.buffers[b][d], &y = out_.regions.buffers[into][d];
      if (!(x == y)) return false;
    }
    out_.sharing[b] = out_.sharing[into] >= 0 ? out_.sharing[into] : into;
    return true;
  }
  int64_t capacity(const char* name, int fallback) const {
    if (const Level* l = target_.level(name))
      return l->sharedBytesPerSecond > 0 ? l->bytes / target_.cores : l->bytes;
    return target_
        .levels[std::min<size_t>(static_cast<size_t>(fallback) + 1, target_.levels.size() - 2)]
        .bytes;
  }
  /// Cycles of a core for a vector access to a scratch buffer, in loads from L1.
  double slowdown(int buffer) const {
    const std::string& s = out_.space[buffer];
    return s.empty() || s == "l1" ? 1 : outgrown_ ? 6 : 1.5;
  }

  double stageSeconds(size_t s) {
    const StageShape& shape = g_.stages[s];
    const StageWork& w = work_[s];
    const double runs = executions(out_.depth[s]);
    const auto [points, outer, whole] = pointsOf(shape, runs, [&](size_t a) {
      return meanSize(out_.regions.stages[s][a], shape.extents[a]);
    });
    const int lanes = std::max(1, target_.lanes(w.elementBytes));
    double vector = 1, rows = runs;  // share of lanes in use; innermost loops entered
    if (w.vectorAxis >= 0) {
      const Span& span = out_.regions.stages[s][w.vectorAxis];
      const double n = meanSize(span, shape.extents[w.vectorAxis]);
      vector = n > 0 ? n / meanSize(span, shape.extents[w.vectorAxis], lanes) : 1;
      rows = n > 0 ? points / n : 0;
    }
    Cost& c = out_.cost;
    c.registers = std::max(c.registers, w.registers);
    c.slots += points * w.slots + outer * w.outerSlots;
    total_ += points * (w.slots + w.loads + 1);
    base_ += whole * (w.slots + w.loads + 1);
    if (w.contraction) return contractionSeconds(s, points, outer, runs, lanes, vector);
    double memory = w.loads + w.stores;
    for (const Touch& t : shape.reads) memory += slowdown(t.buffer) - 1;
    const double chain =
        w.chain * w.chain * 4 / target_.reorderWindow;  // latency that the window does not hide
    const double perVector =
        std::max({w.slots / target_.slotsPerCycle, memory / target_.loadsPerCycle, chain});
    const double after = std::max(w.outerSlots / target_.slotsPerCycle,
                                  (w.outerLoads + w.outerStores) / target_.loadsPerCycle);
    const bool acrossLanes = w.vectorAxis >= 0 && shape.reduce[w.vectorAxis];
    const double behind =
        acrossLanes ? outer * (after + w.accumulators * kJoinCycles) : outer * after / lanes;
    return (points * perVector / lanes / vector + behind + rows * kRowCycles) / target_.hertz;
  }
  /// By a team: each thread holds a square of results, operands come through shared memory once for every block of results. Or, where
  /// that is sooner (products of few rows), each thread adds up what it loads itself.
  double teamContractionSeconds(size_t s, double points, double outer, double runs, int lanes) {
    const StageShape& shape = g_.stages[s];
    const StageWork& w = work_[s];
    double rows = 1, columns = 1;
    for (size_t a = 0; a < shape.extents.size(); a++)
      if (!shape.reduce[a])
        (static_cast<int>(a) == w.vectorAxis ? columns : rows) *=
            meanSize(out_.regions.stages[s][a], shape.extents[a]);
    const double depth = points / std::max(1.0, runs * rows * columns);
    const auto padded = [](double n, double unit) { return std::ceil(n / unit) * unit; };
    const double results = padded(rows, kTeamRows) * padded(columns, lanes);
    const double side = std::sqrt(std::max(1.0, std::min(results / kTeam, kTeamSquare)));
    const double reads = kSharedReads * 2 / side;  // of shared memory, for a multiplication
    const bool fragments = w.ofHalves && !target_.queues.empty();
    const double staged =
        depth * (rows * std::ceil(columns / kTeamBlock) + columns * std::ceil(rows / kTeamBlock)) *
        (fragments ? kMatrixStagedSlots : kStagedSlots);
    const double after = std::max(w.outerSlots / target_.slotsPerCycle,
                                  (w.outerLoads + w.outerStores) / target_.loadsPerCycle);
    const double multiplied =
        depth * results * std::max(1.0, reads) / kPeakShare / (fragments ? kMatrixGain : 1);
    const double slots = std::min(runs * (multiplied + staged), points * kDirectSlots);
    return (slots / lanes / target_.fmaPerCycle + outer * after / lanes) / target_.hertz;
  }
  double contractionSeconds(size_t s, double points, double outer, double runs, int lanes,
                            double vector) {
    const StageShape& shape = g_.stages[s];
    const StageWork& w = work_[s];
    out_.cost.flops += 2 * points;
    if (target_.kind == "gpu") return teamContractionSeconds(s, points, outer, runs, lanes);
    double packed = 0, rows = 1, along = 0,
           across = 0;  // bytes of one run's operands with and without the vector axis
    for (size_t a = 0; a < shape.extents.size(); a++)
      if (!shape.reduce[a] && static_cast<int>(a) != w.vectorAxis)
        rows *= meanSize(out_.regions.stages[s][a], shape.extents[a]);
    for (const Touch& t : shape.reads) {
      bool alongVector = false;
      double elements = 1;
      for (size_t d = 0; d < t.dims.size(); d++) {
        const int64_t extent = g_.buffers[t.buffer][d];  // of its own part: others read others
        if (extent == 1) continue;
        elements *= static_cast<double>(
            std::min(sizeOf(out_.regions.buffers[t.buffer][d], extent),
                     sizeOf(spanOf(t.dims[d], out_.regions.stages[s], extent), extent)));
        for (const auto& [axis, c] : t.dims[d].terms) alongVector |= axis == w.vectorAxis;
      }
      const double size = elements * bytes(set_.buffers[t.buffer].type.dtype);
      (alongVector ? along : across) = std::max(alongVector ? along : across, size);
      if (alongVector && set_.buffers[t.buffer].kind != PlanBuffer::Constant &&
          target_.queues.empty())  // else a queue brings them in the order that is wanted
        packed += elements * runs;
    }
    // A run walks over one operand for every register tile's width of the other: the cheaper of the two orders.
    const double columns = w.vectorAxis < 0 ? 1
                                            : meanSize(out_.regions.stages[s][w.vectorAxis],
                                                       shape.extents[w.vectorAxis]);
    const double stream =
        runs * std::min(moveSeconds(across * columns / (2 * lanes), across, 1, target_),
                        moveSeconds(along * rows / kRegisterRows, along, 1, target_));
    const double reached = kPeakShare * vector * (rows >= 4 ? 1 : 0.4) *
                           (w.ofBytes ? std::max(1.0, productsOfBytes(target_)) : 1.0);
    const double after = std::max(w.outerSlots / target_.slotsPerCycle,
                                  (w.outerLoads + w.outerStores) / target_.loadsPerCycle);
    return (points / lanes / target_.fmaPerCycle / reached + packed * 3 / lanes +
            outer * after / lanes) /
               target_.hertz +
           kUnhidden * stream;
  }

  /// Main memory and shared caches: every tensor from outside, by how often its parts are fetched.
  double moves(double share) {
    double seconds = 0;
    const bool stays = staysNear();
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      const PlanBuffer& buffer = set_.buffers[b];
      if (buffer.kind == PlanBuffer::Scratch) {
        if (outgrown_ && out_.space[b] == "l2")
          seconds += 2 * moveSeconds(scratchTraffic(b), scratchTraffic(b), share, target_);
        continue;
      }
      const double tensor = bytesOf(g_.buffers[b], bytes(buffer.type.dtype));
      const double part = partOf(b);
      // From the inside: a loop that the part doesn't follow fetches again all that passed by since the last time.
      double passed = part, fetches = part, again = 0;
      for (size_t k = t_.order.size(); k-- > 0;) {
        const auto count = static_cast<double>(counts_[t_.order[k]]);
        const bool follows = std::ranges::any_of(
            out_.regions.buffers[b], [&](const Span& s) { return s.dependsOn(t_.order[k]); });
        again *= count;
        if (follows)
          passed *= count;
        else if (!stays || k + 1 < t_.order.size())
          again += moveSeconds(fetches * (count - 1), passed, share, target_);
        fetches *= count;
      }
      seconds += moveSeconds(passed, tensor, share, target_) *
                 (buffer.kind == PlanBuffer::Output ? 1.5 : 1);
      if (buffer.kind != PlanBuffer::Output) seconds += again;
      if (readers_[b] > 1 && part > near_)  // gone when the next stage of the tile reads it
        seconds += moveSeconds(passed * (readers_[b] - 1), part * share, share, target_);
    }
    return seconds;
  }
  /// Bytes that a tile touches.
  double partOf(size_t b) const {
    double part = bytes(set_.buffers[b].type.dtype);
    for (size_t d = 0; d < g_.buffers[b].size(); d++)
      if (g_.buffers[b][d] != 1)
        part *= meanSize(out_.regions.buffers[b][d], g_.buffers[b][d]) * filled(b, d);
    return part;
  }
  /// A GPU's shared memory is its L1 cache too: does it hold all that the teams of a core touch, so that the next ones find what is theirs too?
  bool staysNear() const {
    if (target_.kind != "gpu") return false;
    double all = 0;
    for (size_t b = 0; b < g_.buffers.size(); b++)
      if (set_.buffers[b].kind != PlanBuffer::Scratch) all += partOf(b);
    return all * kTeamsAtOnce <= near_;
  }
  /// The share of a span that is touched.
  double filled(size_t b, size_t d) const {
    if (g_.gaps[b].empty()) return 1;
    const int64_t span = sizeOf(out_.regions.buffers[b][d], g_.buffers[b][d]);
    const int64_t slack =
        d + 1 == g_.buffers[b].size() ? kLineBytes / bytes(set_.buffers[b].type.dtype) : 0;
    return span > 0 ? touchedOf(g_, out_.regions, b, d, slack) / static_cast<double>(span) : 1;
  }
  double scratchTraffic(size_t b) const {
    double n = bytes(set_.buffers[b].type.dtype);
    for (size_t d = 0; d < g_.buffers[b].size(); d++)
      n *= static_cast<double>(sizeOf(out_.regions.buffers[b][d], g_.buffers[b][d]));
    return n * (g_.writer[b] >= 0 ? executions(out_.depth[g_.writer[b]]) : 1);
  }
};

TilingCosts::TilingCosts(const GroupShape& g, const StageSet& set,
                         const std::vector<StageWork>& work, const Target& target)
    : impl_(std::make_unique<Evaluation>(g, set, work, target)) {}
TilingCosts::~TilingCosts() = default;
Tiled& TilingCosts::of(const Tiling& t) { return impl_->of(t); }
int64_t TilingCosts::steps() const { return impl_->steps; }

}  // namespace tektite
