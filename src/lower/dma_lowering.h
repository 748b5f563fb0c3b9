#pragma once
#include <map>
#include <set>

#include "lower/dma.h"
#include "schedule/layout.h"

namespace tektite {

class DmaLowering {
 public:
  DmaLowering(const GroupPlan& plan, const Target& target) : plan_(plan), target_(target) {}

  LoweredKernel run(const std::string& name);

 private:
  GroupPlan plan_;
  const Target& target_;
  KernelBuffers buffers_{plan_, {}, {}};
  LoweredKernel out_;
  const TileList* list_ = nullptr;
  const std::vector<StageSchedule>* schedule_ = nullptr;
  Ranges ranges_;
  std::vector<PlanBuffer*> scratch_;  // of the list
  Block outside_;                     // of the grid
  std::set<std::string> stored_;      // buffers that its stages store
  // two copies: the next tile's comes while this one runs, or the last one's goes
  std::set<std::string> doubled_;

  bool isIn(const PlanBuffer& b) const { return !b.copyOf.empty() && !stored_.count(b.name); }
  bool isOut(const PlanBuffer& b) const { return !b.copyOf.empty() && stored_.count(b.name); }

  /// A reduction across tiles: each stores its part in main memory, the last to come brings all parts and combines them.
  void splitReductions();
  void copyParts(TileList&, int at);
  void begin(const TileList& list, const std::vector<StageSchedule>& schedule);
  /// What a serial loop brings anew for each tile, or takes back, where there is room for two of all.
  void chooseDoubled();
  /// Do tiles of results wait in the scratchpad for vector instructions (kExchangeShare)?
  bool exchanges() const;

  std::vector<const TileAxis*> grid() const;
  Block tiles();

  Stmt allocate(const PlanBuffer& b) const;
  /// Does the loop at this depth bring the newest part of a ring?
  bool bringsRing(const PlanBuffer& b, int depth) const {
    if (b.ring < 0 || !isIn(b)) return false;
    return depth == static_cast<int>(list_->tiles.size());
  }

  /// What runs inside the first `depth` tile loops: stages, the loops that follow, and the stages behind them. Each buffer has a block
  /// from where it is first used to where it is last.
  Block inside(int depth);
  bool uses(const Stage* item, int depth, const std::string& name) const;
  /// The items from first to last, those that a buffer lives through in a block of their own.
  void emit(const std::vector<const Stage*>& items, int depth,
            std::vector<const PlanBuffer*> buffers, std::vector<Life> lives, int first, int last,
            Block& out);
  void item(const Stage* s, int depth, Block& out);
  /// The newest parts of operands' rings.
  void bringRings(int depth, Block& out);
  void loop(int depth, Block& out);

  // ---- copies

  struct Part {
    std::vector<CopyAxis> axes;
    std::vector<Expr> outside, inside;  // indices in main memory and in the tile's copy
  };
  /// The part of the buffer that the copy holds, or of a ring the newest one, clipped to the tensor.
  Part partOf(const PlanBuffer& b, const std::string& v, const Expr& value) const;
  const std::string& engine(const std::string& from, const std::string& to) const;
  /// Where `ahead` is given nothing comes behind its last tile. Answers the queue.
  std::string bring(const PlanBuffer& b, const std::string& v, const Expr& value, const Expr& slot,
                    Block& out, const TileAxis* ahead = nullptr) const;
  std::string takeBack(const PlanBuffer& b, const Expr& slot, Block& out) const;

  // ---- stages

  Block stage(const Stage& s, const StageSchedule& schedule);
  bool isFed(const Product& p) const;
  /// A number around what lies inside of bounds, one strip before and one behind along each axis that has bounds.
  std::optional<Block> borders(const Stage& s) const;
  void strip(const Stage& s, size_t along, bool before, int64_t bound, Block& out) const;
  /// An engine brings the elements; those that lie outside the tensor are the fill.
  std::optional<Block> fromMain(const Stage& s, const MoveStage& move) const;
  /// Is the guard just that the load is in range?
  static bool saysInRange(const Stage& s, const MoveStage& move, const PlanBuffer& from);
};

}  // namespace tektite
