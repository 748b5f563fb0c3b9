#include "lower/next_panel.h"

#include <algorithm>
#include <bit>

#include "ir/bytes.h"

namespace tektite {
namespace {

constexpr int64_t kLineBytes = 64;
constexpr char kPart[] = "next";

/// How many times the loops run together, and which of these runs this is.
std::pair<int64_t, Expr> runsOf(std::span<const OpenLoop> loops) {
  int64_t all = 1;
  Expr at = 0;
  for (const OpenLoop& loop : loops) {
    all *= loop.most;
    at = at * Expr(loop.most) + var(loop.var);
  }
  return {all, at};
}

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::optional<Stmt> nextPanel(const PlanBuffer& panels, std::vector<Expr> first, size_t dimension,
                              std::span<const OpenLoop> blocks, std::span<const OpenLoop> steps) {
  const auto [blockCount, block] = runsOf(blocks);
  const auto [stepCount, step] = runsOf(steps);
  if (blockCount < 2) return {};
  const int64_t element = bytes(panels.type.dtype),
                count = panels.type.extent(static_cast<int>(dimension));
  int64_t size = element;
  for (size_t d = dimension + 1; d < first.size(); d++)
    size *= panels.type.extent(static_cast<int>(d));
  const int64_t lines = ceilDiv(size, kLineBytes), all = blockCount * stepCount,
                every = static_cast<int64_t>(
                    std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, all / lines)))),
                fetches = ceilDiv(stepCount, every), each = ceilDiv(lines, blockCount * fetches),
                needed = ceilDiv(lines, fetches * each),  // blocks
      line = kLineBytes / element;
  const Expr share = block * Expr(fetches) + floorDiv(step, every),
             panel = first[dimension] + Expr(1);
  first[dimension] = panel;
  first.back() = first.back() + share * Expr(each * line) + var(kPart);
  Stmt fetch{Copy{{}, {panels.name, std::move(first)}, {{kPart, Expr(each * line)}}, {}, "", "l2"},
             ""};
  Expr when = lt(panel, count);
  if (needed < blockCount) when = logicalAnd(when, lt(block, needed));
  if (every > 1) when = logicalAnd(when, eq(floorMod(step, every), 0));
  Block body;
  body.push_back(std::move(fetch));
  return Stmt{If{when, std::move(body)}, ""};
}

}  // namespace tektite
