#include "schedule/layout.h"

#include <algorithm>
#include <numeric>

#include "ir/lanes.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLine = 64, kWays = 8;  // of near caches
constexpr int64_t kMostLines = 1 << 16;   // looked at

std::vector<int> orderOf(const PlanBuffer& b) {
  if (!b.order.empty()) return b.order;
  std::vector<int> order(b.type.rank());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

int64_t sizeOf(const StageAxis& a) {
  return std::max<int64_t>(0, std::min(a.region.size, a.extent));
}

int64_t touchedBytes(const Stage& stage, const std::vector<Expr>& index, int64_t elementBytes) {
  int64_t n = elementBytes;
  for (const StageAxis& a : stage.axes)
    if (mentions(index, a.var)) n *= sizeOf(a);
  return n;
}

std::vector<int64_t> memoryShape(const PlanBuffer& b) {
  if (b.kind != PlanBuffer::Scratch) return b.type.extents();
  std::vector<int64_t> shape;
  for (const Region& r : b.region) shape.push_back(r.size);
  return shape;
}

int64_t memoryBytes(const PlanBuffer& b) {
  int64_t n = bytes(b.type.dtype);
  for (const int64_t extent : memoryShape(b)) n *= std::max<int64_t>(extent, 0);
  return n;
}

std::vector<int64_t> memoryStrides(const PlanBuffer& b) {
  const auto shape = memoryShape(b);
  const auto order = orderOf(b);
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

std::optional<int64_t> strideAlong(const PlanBuffer& b, const std::vector<Expr>& index,
                                   const std::string& var) {
  const auto strides = memoryStrides(b);
  int64_t step = 0;
  for (size_t d = 0; d < index.size(); d++) {
    for (const auto& [term, coefficient] : linearOf(index[d]).terms) {
      const Var* v = term.as<Var>();
      if (v && v->name == var) step += coefficient * strides[d];
      if (!v && mentions({term}, var)) return std::nullopt;
    }
  }
  return step;
}

bool nearAlong(const PlanBuffer& b, const std::vector<Expr>& index, const std::string& var,
               int lanes) {
  const auto strides = memoryStrides(b);
  Expr flat = 0;
  for (size_t d = 0; d < index.size(); d++) flat = flat + index[d] * Expr(strides[d]);
  if (!loadsOf(flat).empty()) return false;
  const Expr free = rewrite(flat, [](const Expr& e) -> Expr {
    const Apply* a = e.as<Apply>();
    if (!a || (a->op != Op::Min && a->op != Op::Max)) return {};
    return asInteger(a->args[1]) ? a->args[0] : asInteger(a->args[0]) ? a->args[1] : Expr();
  });
  const auto places = lanePlaces(lanes, [&](int l) {
    return linearOf(
        simplify(substitute(free, {{var, tektite::var(var) * Expr(lanes) + Expr(l)}}), {}));
  });
  if (!places) return false;
  const auto [least, most] = std::ranges::minmax_element(places->distances);
  return *most - *least < 2 * lanes;
}

bool crowdsSets(const PlanBuffer& b, const std::vector<Expr>& index, const Stage& stage,
                int64_t cacheBytes) {
  const int64_t period = cacheBytes / kWays / kLine;
  std::vector<std::pair<int64_t, int64_t>> walks;  // step in bytes, number
  for (const StageAxis& a : stage.axes)
    if (const int64_t step = std::abs(strideAlong(b, index, a.var).value_or(0)))
      walks.emplace_back(step * bytes(b.type.dtype), std::min(a.region.size, a.extent));
  std::ranges::sort(walks);
  int64_t run = bytes(b.type.dtype), runs = 1;  // bytes side by side
  std::vector<int64_t> starts = {0};
  for (const auto& [step, n] : walks) {
    if (step <= run) {
      run = std::max(run, n * step);
      continue;
    }
    runs *= n;
    if (runs > kMostLines) return false;
    std::vector<int64_t> next;
    for (const int64_t start : starts)
      for (int64_t i = 0; i < n; i++) next.push_back(start + i * step);
    starts = std::move(next);
  }
  const int64_t lines = (run + kLine - 1) / kLine;
  if (period < 1 || lines * runs > kMostLines) return false;
  std::vector<int64_t> held(static_cast<size_t>(period));
  for (const int64_t start : starts)
    for (int64_t i = 0; i < lines; i++) held[static_cast<size_t>((start / kLine + i) % period)]++;
  int64_t crowded = 0;
  for (const int64_t n : held) crowded += n > kWays ? n : 0;
  return crowded * 2 > lines * runs;
}

std::vector<StageAccess> accessesOf(const GroupPlan& plan, const Stage& stage) {
  std::vector<StageAccess> out;
  const auto loads = [&](const Expr& e, bool reduced) {
    for (const Expr& l : loadsOf(e))
      out.push_back({&plan.buffer(l.as<Load>()->buffer), l.as<Load>()->index, false, reduced});
  };
  const auto store = [&](const StageStore& s, bool reduced) {
    out.push_back({&plan.buffer(s.buffer), s.index, true, reduced});
    for (const Expr& e : s.index) loads(e, reduced);
    loads(s.value, reduced);
    if (s.guard) loads(s.guard, reduced);
  };
  for (const StageStore& s : stage.inner) store(s, !stage.accumulators.empty());
  for (const Accumulator& a : stage.accumulators)
    for (const Expr& e : a.values) loads(e, true);
  for (const StageStore& s : stage.outer) store(s, false);
  return out;
}

}  // namespace tektite
