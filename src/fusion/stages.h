#pragma once
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusion/defs.h"
#include "fusion/plan.h"

namespace tektite {

struct StageFacts;
struct StageMemory;

/// The loop nests of a group in topological order, without regions: inlining and the merging of values of equal axes are done.
/// `buffers` are those that the stages touch: leaves, outputs in the body's order, scratch.
struct StageSet {
  std::vector<Stage> stages;
  std::vector<std::shared_ptr<const StageFacts>> facts;  ///< of the stages; empty: not known
  std::vector<PlanBuffer> buffers;
  /// For each buffer: a scratch buffer of the same shape that the writing stage reads last, at the element that it writes, or -1.
  std::vector<int> inPlace;
  bool scatters = false;  ///< a stage stores where another one stored before
};
void findInPlace(StageSet&);
/// Does the stage read `buffer` only for this store's value, at this store's element? What the accumulators share with the stored value is
/// computed once, before the store.
bool readsOnlyThere(const Stage&, const StageStore&, const std::string& buffer);
StageSet formStages(const Graph& body, const Defs&, StageMemory&);

/// Every load of a stage, each distinct one once.
std::vector<Expr> loadsOf(const Stage&);
/// The names of the buffers that a stage, or any of several, loads or stores.
std::set<std::string> buffersOf(const Stage&);
std::set<std::string> buffersOf(const std::vector<Stage>&);
/// Does a load of the accumulated values serve several points of the space?
bool hasReuse(const Stage&);
/// Makes every expression of a stage what `to` makes of it.
void change(Stage&, const std::function<Expr(const Expr&)>& to);
/// What a stage's axes are where the element that it stores at `stored` is the one at `read`, as far as an axis alone is an index.
std::unordered_map<std::string, Expr> axesAt(const std::vector<Expr>& stored,
                                             const std::vector<Expr>& read);
Hash hashOf(const Stage&);  ///< but for its comment
Stage mapped(Stage, const std::function<Expr(const Expr&)>& to);

}  // namespace tektite
