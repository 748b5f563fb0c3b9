#pragma once
#include <optional>
#include <string>

#include "ir/kernel.h"
#include "ir/numerics.h"
#include "ir/target.h"

namespace tektite {

/// An instruction that multiplies numbers of few bits and adds `group` neighbours up in each lane:
/// sum[l] += row[0] * panel[l, 0] + .. + row[group - 1] * panel[l, group - 1], the row the same for all lanes. Integers wrap: it is exact.
/// Products of bf16 are added to f32 as the instruction likes to round: only in `fast`.
struct Dot {
  DType row = DType::U8, panel = DType::I8;
  int group = 4, lanes = 0;
  std::string rowSpace = "main", panelSpace = "main";
  DType sum() const { return isFloat(row) ? DType::F32 : DType::I32; }
  int trailing = 0;  ///< axes of extent 1 behind the row's own in its buffer
};
/// The declaration, its meaning in kernel text; the name says all of it.
IntrinDef declare(const Dot&);
/// What a declaration says, where it is one that `declare` makes.
std::optional<Dot> dotOf(const IntrinDef&);
/// The target without instructions that the mode doesn't allow.
Target allowedTarget(Target, Numerics);
/// How many neighbours the target's instruction for these types takes; 0: it has none.
int dotGroup(const Target&, DType row, DType panel);

}  // namespace tektite
