#pragma once
#include "fusion/plan.h"

namespace tektite {

/// Cuts maps whose dependence chain is longer than the machine's reorder window can hide: the chain's parts run one after the other over
/// strips of the vector axis that fit L1, what passes between them lies in scratch (loop fission inside the kernel). A chain of latency L
/// cycles in a loop of N instructions has window / N iterations in flight; it is bound by latency where L > window / slots a cycle.
GroupPlan cutChains(GroupPlan plan, const Target& target);

/// Cycles from the leaves to the value, transcendentals expanded.
double latencyOf(const Expr&, const Target&);

}  // namespace tektite
