#pragma once
#include <optional>

#include "fusion/region.h"

namespace tektite {

/// A stage set that walks a reduction axis piece by piece: every reduction over it carries its value from piece to piece, so that
/// nothing along the axis is ever held whole. What was computed with an earlier value of a carried maximum is corrected by algebra:
/// exp(x - m) by exp(m_before - m_now), and with it sums of products of it (the online softmax of Milakov & Gimelshein 2018, without
/// a list of patterns); a sum of squares of distances from a carried mean by the square of the mean's move, for every element so far
/// (Welford); a factor that doesn't change along the axis leaves the sum first. Stages behind the walk are marked `after`.
struct Streamed {
  StageSet set;
  int root;                   ///< a stage that reduces over the axis
  std::vector<int> rootAxes;  ///< its space axes, then the axis that is walked
  bool means = false;         ///< a mean is carried and read on the way
};
/// Nothing where no reduction waits for another one over the same axis, or where a rule's precondition fails: values that a carried
/// value changes otherwise than by a factor, or that are stored as a result. Not for Numerics::Strict: sums are rounded differently.
/// `always`: also where no reduction waits for another one: a long sum, in pieces. The shape is the set's.
std::optional<Streamed> streamed(const StageSet&, const GroupShape&, bool always = false);
/// The set without stages that only multiply or divide by what doesn't change along axes over which all their readers then sum: the
/// factor leaves the sums. "p / l, then p times v" becomes "p times v, then / l".
StageSet deferFactors(StageSet);

}  // namespace tektite
