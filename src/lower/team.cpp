#include "lower/team.h"

#include <algorithm>

#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr const char* kOnlyTile = "tile";

/// Shared memory that a stage takes for itself: what joins reductions, panels of operands. At most one stage's at a time.
int64_t bytesForStages(const TileList& list, const std::vector<TeamStage>& schedule, int threads) {
  int64_t most = 0;
  for (size_t k = 0; k < list.stages.size(); k++) {
    int64_t n = 0;
    if (schedule[k].product.on())
      n = panelBytes(schedule[k], list.stages[k]);
    else if (schedule[k].group > 1)
      for (const Accumulator& a : list.stages[k].accumulators)
        for (DType t : a.combine.types) n += int64_t{threads} * bytes(t);
    most = std::max(most, n);
  }
  return most;
}

class TeamList {
 public:
  TeamList(const TileList& list, const std::vector<TeamStage>& schedule, int threads,
           const KernelBuffers& buffers, const std::vector<const PlanBuffer*>& scratch,
           const Target& target)
      : list_(list), schedule_(schedule), threads_(threads), buffers_(buffers) {
    for (const TileAxis& t : list.tiles) {
      ranges_[t.var] = {0, std::max<int64_t>(t.count() - 1, 0)};
      if (t.grid) grid_++;
    }
    place(scratch, target);
  }

  Block run() {
    Block out = std::move(allocations_);
    Block tile = placeSyncs(inside(grid_));
    for (int i = grid_; i-- > 0;) tile = loop(list_.tiles[i], LoopMode::Parallel, std::move(tile));
    if (grid_ == 0)  // no axis to run in parallel: one tile
      tile = {{For{kOnlyTile, Expr(1), LoopMode::Parallel, std::move(tile)}, ""}};
    for (Stmt& s : tile) out.push_back(std::move(s));
    return out;
  }

 private:
  static Block loop(const TileAxis& t, LoopMode mode, Block body) {
    return {{For{t.var, Expr(t.count()), mode, std::move(body)}, ""}};
  }

  /// The smallest buffers lie in shared memory.
  void place(const std::vector<const PlanBuffer*>& scratch, const Target& target) {
    std::vector<const PlanBuffer*> own;
    for (const PlanBuffer* b : scratch)
      if (!sharedByTiles(*b)) own.push_back(b);
    std::ranges::stable_sort(own, {}, [](const PlanBuffer* b) { return memoryBytes(*b); });
    const Level* shared = target.level("shared");
    int64_t room = (shared ? shared->bytes : 0) - bytesForStages(list_, schedule_, threads_);
    for (const PlanBuffer* b : own) {
      room -= memoryBytes(*b);
      if (room >= 0)
        shared_.push_back(b);
      else
        placeInMain(*b);
    }
  }
  void placeInMain(const PlanBuffer& b) {
    Buffer all = allocate(b, "main");
    std::vector<Expr> counts, tile;
    for (int i = 0; i < grid_; i++) {
      counts.emplace_back(list_.tiles[i].count());
      tile.push_back(var(list_.tiles[i].var));
    }
    all.shape.insert(all.shape.begin(), counts.begin(), counts.end());
    allocations_.push_back({Alloc{std::move(all)}, ""});
    buffers_.tile[b.name] = tile;
  }

  /// What runs inside the first `depth` tile loops, the further loops in it.
  Block inside(int depth) {
    Block out;
    for (const PlanBuffer* b : shared_)
      if (std::max(b->depth, grid_) == depth) out.push_back({Alloc{allocate(*b, "shared")}, ""});
    stages(depth, false, out);
    if (depth < static_cast<int>(list_.tiles.size()))
      for (Stmt& s : loop(list_.tiles[depth], LoopMode::Serial, inside(depth + 1)))
        out.push_back(std::move(s));
    stages(depth, true, out);
    return out;
  }
  void stages(int depth, bool after, Block& out) {
    for (size_t k = 0; k < list_.stages.size(); k++) {
      const Stage& stage = list_.stages[k];
      TEKTITE_CHECK(stage.depth >= grid_, "a stage stands between the loops of a grid");
      if (stage.depth != depth || stage.after != after) continue;
      const bool product = schedule_[k].product.on();
      Block nest = product ? lowerTeamProduct(stage, schedule_[k], threads_, buffers_, ranges_)
                           : lowerTeamStage(stage, schedule_[k], threads_, buffers_, ranges_);
      if (!nest.empty()) nest.front().comment = stage.comment;
      for (Stmt& s : nest) out.push_back(std::move(s));
      if (static_cast<int>(k) == list_.sync)
        out.push_back({Sync{Sync::Last, list_.tiles.back().var, 0}, ""});
    }
  }

  const TileList& list_;
  const std::vector<TeamStage>& schedule_;
  const int threads_;
  KernelBuffers buffers_;
  Ranges ranges_;
  int grid_ = 0;
  std::vector<const PlanBuffer*> shared_;
  Block allocations_;
};

}  // namespace

Block lowerTeamList(const TileList& list, const std::vector<TeamStage>& schedule, int threads,
                    const KernelBuffers& buffers, const std::vector<const PlanBuffer*>& scratch,
                    const Target& target) {
  return TeamList(list, schedule, threads, buffers, scratch, target).run();
}

}  // namespace tektite
