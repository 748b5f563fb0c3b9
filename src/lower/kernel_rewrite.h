#pragma once
#include <functional>

#include "ir/kernel.h"

namespace tektite {

/// The statement with every expression of its own (not of its body) mapped. A copy's maps are over its axes.
Stmt mapStmtExprs(const Stmt& s, const std::function<Expr(const Expr&)>& map);
/// The statement with another body; for blocks, loops and ifs.
Stmt withBody(const Stmt& s, Block body);

/// The names of buffers that a block reads, and that it writes (stores, copies, instructions).
struct Touched {
  std::vector<std::string> reads, writes;
  bool read(const std::string& buffer) const;
  bool written(const std::string& buffer) const;
};
Touched touchedBy(const Block& block, const KernelModule& module);

}  // namespace tektite
