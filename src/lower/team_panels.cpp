#include "lower/team_panels.h"

#include <algorithm>

namespace tektite {
namespace {

constexpr int64_t kVectorBytes = 16;  // the widest access to a panel

}  // namespace

TeamPanels::TeamPanels(const Stage& stage, const TeamStage& schedule, int threads,
                       const KernelBuffers& buffers, const Ranges& tiles)
    : TeamPoints(stage, threads, buffers, tiles),
      schedule_(schedule),
      product_(schedule.product),
      accumulator_(stage.accumulators[0]),
      panels_(panelsOf(schedule, stage)),
      rows_{product_.rows, "rows", "rb"},
      columns_{product_.columns, "columns", "cb"} {}

Block TeamPanels::run() {
  Block out;
  batches(0, out);
  return out;
}

// ---- loops of the whole team

void TeamPanels::batches(size_t k, Block& out) {
  if (k < product_.batch.size())
    return axisLoop(out, product_.batch[k], [&](Block& inner) { batches(k + 1, inner); });
  blocks(out, rows_, [&](Block& inner) { blocks(inner, columns_, [&](Block& b) { block(b); }); });
}

void TeamPanels::blocks(Block& out, Side& side, const Fill& inside) {
  const int64_t count = (pointsOf(side.of.axes) + side.of.block() - 1) / side.of.block();
  side.first = 0;
  if (count == 1) return inside(out);
  side.first = var(side.block) * Expr(side.of.block());
  serial(out, side.block, count, count, inside);
}

void TeamPanels::block(Block& out) {
  Block scope, panels;
  begin(scope);
  for (const Side* s : {&rows_, &columns_}) allocate(panels, *s);
  const auto bringBoth = [&](Block& to, const Expr& panel) {
    for (const Side* s : {&rows_, &columns_}) bring(to, *s, panel);
  };
  Block first;
  bringBoth(first, 0);
  panels.push_back(team(std::move(first)));
  if (panels_ == 1) {
    arrived(panels);
    panels.push_back(step([](Block&) {}, 0));
  } else {
    serial(panels, "panel", panels_, panels_, [&](Block& inner) {
      arrived(inner);
      const Expr panel = var("panel"), there = lt(panel + Expr(1), Expr(panels_));
      inner.push_back(step(
          [&](Block& to) {
            Block next;
            facts_ = {there};
            bringBoth(next, panel + Expr(1));
            facts_.clear();
            addIf(to, {there}, std::move(next));
          },
          panel));
    });
  }
  scope.push_back({BlockStmt{std::move(panels)}, ""});
  results(scope);
  out.push_back({BlockStmt{std::move(scope)}, ""});
}

/// The panel is there for all, and nobody reads the one before it any more.
void TeamPanels::arrived(Block& out) const {
  if (product_.rows.copied || product_.columns.copied)
    out.push_back({Sync{Sync::Queue, kCopyQueue, 0}, ""});
  out.push_back({Sync{Sync::Shared, "", 0}, ""});
}

// ---- operands

void TeamPanels::allocate(Block& out, const Side& side) const {
  Buffer b{side.panel, side.of.value.type(), {}, {}, "shared", kVectorBytes, ""};
  if (panels_ > 1) b.shape.emplace_back(2);
  b.shape.emplace_back(side.of.blockFirst ? side.of.block() : product_.depth);
  b.shape.emplace_back(side.of.width);
  out.push_back({Alloc{std::move(b)}, ""});
}

Ref TeamPanels::inPanel(const Side& side, const Expr& panel, const Expr& deep,
                        const Expr& across) const {
  Ref r{side.panel, {}};
  if (panels_ > 1) r.index.push_back(floorMod(panel, Expr(2)));
  r.index.push_back(side.of.blockFirst ? across : deep);
  r.index.push_back(side.of.blockFirst ? deep : across);
  r.index = simplified(std::move(r.index));
  return r;
}

/// All threads bring the panel's elements; what lies outside is zero.
void TeamPanels::bring(Block& out, const Side& side, const Expr& panel) {
  const TeamOperand& o = side.of;
  const int n = std::max(1, o.copied), down = o.blockFirst ? n : 1, along = o.blockFirst ? 1 : n;
  ranges_["l"] = {0, n - 1};
  const int64_t total = product_.depth * o.block() / n;
  rounds(out, total, threads_, side.panel + "_round", thread_,
         [&](Block& body, const Expr& number) {
           const Expr minor(o.alongDepth ? product_.depth / down : o.block() / along);
           const Expr low = simplify(floorMod(number, minor), ranges_),
                      high = simplify(floorDiv(number, minor), ranges_);
           const Expr deep = o.alongDepth ? low : high, across = o.alongDepth ? high : low;
           std::vector<Expr> conditions;
           decode(simplify(panel * Expr(product_.depth / down) + deep, ranges_), schedule_.reduce,
                  down, conditions);
           decode(simplify(floorDiv(side.first, Expr(along)) + across, ranges_), o.axes, along,
                  conditions);
           const auto element = [](const Expr& e, int step) {
             return step > 1 ? e * Expr(step) + var("l") : e;
           };
           const Ref to = inPanel(side, panel, element(deep, down), element(across, along));
           Block one;
           one.push_back(o.copied ? copy(side, to) : loadAndStore(side, to, conditions));
           std::vector<Expr> there;
           if (total % threads_) there.push_back(simplify(lt(number, Expr(total)), ranges_));
           addIf(body, there, std::move(one));
         });
}

Stmt TeamPanels::loadAndStore(const Side& side, Ref to, const std::vector<Expr>& conditions) const {
  Expr inside = boolean(true);
  for (const Expr& c : conditions) inside = logicalAnd(inside, c);
  Store s;
  s.targets = {std::move(to)};
  s.values = {select(inside, translate(side.of.value), imm(side.of.value.type(), 0))};
  return {std::move(s), ""};
}

/// Beyond the buffer is zero; what lies in it, but beyond the tile, only reaches results that nobody stores.
Stmt TeamPanels::copy(const Side& side, Ref to) const {
  const Expr from = translate(side.of.value);
  const Load& l = *from.as<Load>();
  Copy c;
  c.to = std::move(to);
  c.from = {l.buffer, l.index};
  c.axes = {{"l", Expr(side.of.copied)}};
  c.fill = imm(side.of.value.type(), 0);
  c.queue = kCopyQueue;
  return {std::move(c), ""};
}

Block TeamPanels::unrolled(const std::string& v, int64_t n, Block body) {
  Block out;
  out.push_back(loop(v, n, LoopMode::Unroll, std::move(body)));
  return out;
}

}  // namespace tektite
