#pragma once
#include "fusion/plan.h"

namespace tektite {

/// Cuts a product whose operand along the lanes is data and doesn't stay in the near cache as it lies: strips of columns, and pieces of the
/// depth, so that panels of one fit there while all rows go by.
/// With constants, which are in panels already: rows so many at a time that they stay while all panels go by.
void blockProducts(GroupPlan&, TileList&, const Target&);

/// Splits stage `at`, whose reduce axis the last of the list's tile loops cuts: partial results of each tile, then their combination in
/// index order. `inside`: the loop is serial, and the combination follows it in the loops around.
void splitPartials(GroupPlan&, TileList&, int at, bool inside);

}  // namespace tektite
