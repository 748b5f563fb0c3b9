#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tektite {

enum class Verdict : uint8_t { Inlined, Placed, Merged, Unfused };
/// The closed list.
enum class Reason : uint8_t {
  None,
  Cycle,
  ControlFlow,
  OpaqueCall,
  UnknownExtent,
  NeedsWholeProducer,
  TooBigForLevel,
  Recompute,
  Registers,
  Parallelism,
  CodeSize,
  TargetLacks,
  NoGain,
  NumericsMode,
  UserFence
};
std::string_view name(Verdict);
std::string_view name(Reason);  ///< "too big for level"

/// Why not: the reason with its numbers (needed/available, factor/budget, before/after; what they are is the reason's own).
struct Refusal {
  Reason reason = Reason::None;
  double needed = 0, available = 0;
  std::string what;  ///< a level, a capability
};
std::string toText(const Refusal&);  ///< the one sentence of each reason

struct Edge {
  Value from;                    ///< in the graph before fusion
  int to;                        ///< the consumer node
  std::string fromName, toName;  ///< stable names of the input model (origin; else the node's %id)
  Verdict verdict = Verdict::Unfused;
  Refusal refusal;      ///< where unfused
  bool beside = false;  ///< no edge: the nodes begin kernels that don't need each other
  int64_t bytesSaved = 0, launchesSaved = 0;
};

struct Ledger {
  std::vector<Edge> edges;
  std::vector<Edge> pairs;  ///< that were considered for one kernel side by side
  /// Edges and pairs of these two nodes of the input model, either way round.
  std::vector<Edge> between(const std::string& a, const std::string& b) const;
};

}  // namespace tektite
