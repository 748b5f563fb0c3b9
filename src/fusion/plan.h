#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/target.h"

namespace tektite {

/// How a group becomes one kernel: what fusion decides and lowering reads. Shapes are static here (dims are bound before planning).
///
/// A tile list runs `tiles` loops; inside them its stages run in order. A stage is one loop nest over its part (`region`) of the
/// iteration space: it stores values at every point, combines values over its reduce axes, and stores what follows from the
/// combined values. Values between stages live in scratch buffers, those inside a stage in registers. All of it is scalar
/// expressions over axis variables and loads of buffers by name: nobody after this knows an operator.

/// The elements [base, base + size) of an axis, clipped to the axis; base is over the tile variables.
struct Region {
  Expr base;
  int64_t size;
  friend bool operator==(const Region&, const Region&) = default;
};

struct PlanBuffer {
  enum Kind : uint8_t { Input, Constant, Output, Scratch } kind = Input;
  std::string name;  ///< what loads and stores call it: "v12"
  Value value;       ///< in the group's body
  TensorType type;   ///< of the whole tensor, static
  std::vector<int>
      order;  ///< memory layout: axes from outermost to innermost; empty: row-major. Scratch: lowering chooses.
  bool feedsMoreStages = false;  ///< an output that later stages of the same kernel read back
  std::shared_ptr<const Node> constant;  ///< a Constant that lies inside a scan: its node
  // Scratch only
  std::string space;           ///< "l1", "l2"; "main" where it outgrows them (one for each thread)
  int depth = 0;               ///< lives inside this many tile loops
  std::vector<Region> region;  ///< what is held, an axis each
  std::string
      copyOf;  ///< with explicit memories: the buffer in main memory whose part this is, brought or taken back
  int ring =
      -1;  ///< the axis along which the region slides: element i lies at i % size, and a tile makes or brings the newest part
  Region newest;  ///< of that axis
};

struct StageStore {
  std::string buffer;       ///< an Output or Scratch
  std::vector<Expr> index;  ///< over axis variables, in the whole tensor's coordinates
  Expr value;
  std::string combine;  ///< "": assign; else a builtin combine joins what is there (scatter)
  Expr guard;           ///< null: always
};

struct Accumulator {
  Combine combine;
  std::vector<Expr> values;        ///< at every point
  std::vector<std::string> names;  ///< variables that hold the combined values in `outer`
};

struct StageAxis {
  std::string var;  ///< "i0", "i1"...; unique in the stage
  int64_t extent;
  bool reduce = false;
  Region
      region;  ///< of one execution of the stage; reduce axes: whole, or a tile of it (TileList::sync)
};

struct Stage {
  std::vector<StageAxis>
      axes;  ///< space axes in the result's order, then reduce axes in canonical order
  std::vector<StageStore>
      inner;  ///< at every point of all axes; one may overwrite what its own value read: the
              ///< accumulators' values of the point are taken before
  std::vector<Accumulator> accumulators;  ///< over the reduce axes
  std::vector<StageStore> outer;          ///< at every point of the space axes, after them
  bool contraction =
      false;  ///< the one accumulator is a sum of products of loads: worth register tiles and packing
  int depth = 0;        ///< runs inside this many tile loops
  std::string comment;  ///< the nodes it computes, by origin
  bool after = false;   ///< behind the tile loops that are inside of its depth; else before them
};

struct TileAxis {
  std::string var;       ///< "t0": counts tiles; the tile's elements start at t0 * tile
  int64_t extent, tile;  ///< of the axis; elements a tile
  bool grid =
      true;  ///< part of the parallel grid (a prefix of the list), else a serial loop inside a tile
  int64_t warm =
      0;  ///< tiles before the first, where rings are filled: the elements start at (var - warm) * tile
  int64_t count() const { return (extent + tile - 1) / tile + warm; }
};

struct TileList {
  std::vector<TileAxis> tiles;
  std::vector<Stage> stages;
  /// >= 0: the accumulators of this stage are partial in each tile of the last grid axis, which tiles its reduce axis; the last tile to
  /// arrive combines them in index order, runs the stage's outer stores and the later stages (kernels: `sync last`).
  int sync = -1;
};

/// One cost model's numbers of a plan, or of the same nodes left apart.
struct Cost {
  double seconds = 0;
  int64_t launches = 0;
  int64_t gridSyncs = 0;                    ///< between the steps of a scan
  int64_t bytesRead = 0, bytesWritten = 0;  ///< main memory, planned
  double flops = 0, slots = 0;              ///< useful operations; issue slots, recompute counted
  double recompute = 1;                     ///< work over that of computing everything once
  double mostRecompute = 1.3;  ///< its budget: a share, or what half a launch would take
  int64_t scratchBytes = 0;    ///< of one tile
  int registers = 0;           ///< vector registers demanded by the widest stage
};

struct ScanPlan;

struct GroupPlan {
  std::vector<PlanBuffer>
      buffers;  ///< inputs and constants, then outputs (in the body's order), then scratch
  std::vector<TileList> lists;  ///< more than one: stacked
  Cost cost;
  std::shared_ptr<const ScanPlan> scan;  ///< a recurrence: this instead of lists
  bool canonical =
      false;  ///< reductions of floats run in ascending row-major order (Numerics::Strict)
  const PlanBuffer& buffer(const std::string& name) const;
};

/// Where a value of a scan's part lies: a buffer of the scan's plan, or its slice `at` along a new first axis, over the variable "step".
struct ScanPort {
  std::string buffer;
  Expr at;  ///< null: the whole buffer
};
/// A kernel of a scan: a group's body and plan, with its operands and results. A result may have several places.
struct ScanPart {
  std::shared_ptr<const Graph> body;
  std::shared_ptr<const GroupPlan> plan;
  std::vector<ScanPort> inputs;
  std::vector<std::vector<ScanPort>> outputs;
  int64_t delay =
      0;  ///< runs this many steps late: it reads slices that a scan before it made a step ago
};
/// Recurrences as one kernel: `first` puts the states' first values in place and computes what the scans read, `each` runs once a step in
/// order, `last` what follows from the last values. States lie in scratch of two slices, read at step % 2 and stored at the other. Scans that
/// read each other's slices run side by side, each a step behind the one before it.
struct ScanPlan {
  int64_t steps = 0;  ///< of each scan
  int64_t delay = 0;  ///< of the last one
  std::vector<ScanPart> first, each, last;
  bool carried =
      false;  ///< a tile reads no state but what it stored itself: it runs all steps by itself
};
inline const char* const kStepVariable = "step";

/// Must this stage combine its reduce axes in their order, one element after the other?
bool keepsOrder(const GroupPlan&, const Stage&);

/// Of all that lowering reads: plans of equal hash are lowered to the same kernel, but for comments. Recurrences are equal to themselves only: by
/// address, so keys live no longer than plans.
Hash hashOf(const GroupPlan&);
std::string toText(const GroupPlan&);  ///< readable; for `explain` and goldens

}  // namespace tektite
