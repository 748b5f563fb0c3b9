#pragma once
#include <optional>

#include "fusion/region.h"
#include "fusion/streaming_rules.h"

namespace tektite {

/// A stage set that walks a reduction axis piece by piece: every reduction over it carries its value from piece to piece, so that
/// nothing along the axis is ever held whole. What was computed with an earlier value of a carried maximum or mean is corrected by the
/// algebra of streaming_rules.cpp (the online softmax of Milakov & Gimelshein 2018, Welford's variance, without a list of patterns).
/// Stages behind the walk are marked `after`.
struct Streamed {
  StageSet set;
  int root;                   ///< a stage that reduces over the axis
  std::vector<int> rootAxes;  ///< its space axes, then the axis that is walked
  bool means = false;         ///< a mean is carried and read on the way
  RulesUsed rules;            ///< that this rests on
};
/// Nothing where no reduction waits for another one over the same axis, or where a rule's precondition fails: values that a carried
/// value changes otherwise than by a factor, or that are stored as a result.
/// `always`: also where no reduction waits for another one: a long sum, in pieces. The shape is the set's.
std::optional<Streamed> streamed(const StageSet&, const GroupShape&, bool always = false);
/// False: no mean is carried, whatever else is.
bool mayCarryMeans(const StageSet&);
/// The set without stages that only multiply or divide by what doesn't change along axes over which all their readers then sum: the
/// factor leaves the sums. "p / l, then p times v" becomes "p times v, then / l".
StageSet deferFactors(StageSet);

}  // namespace tektite
