#include <algorithm>
#include <climits>

#include "fusion/explicit_evaluation.h"

namespace tektite {
namespace {

constexpr double kSmallShare = 1.0 / 16;  // of a memory, of an operand that isn't brought by parts

}  // namespace

int64_t ExplicitEvaluation::heldBytes(size_t b) const {
  int64_t n = facts_.elementBytes[b];
  for (size_t d = 0; d < g_.buffers[b].size(); d++)
    n *= std::max<int64_t>(0, clipped(out_.regions.buffers[b][d], g_.buffers[b][d]).size);
  const int64_t align = m_.level(levelOf(b)).align;
  return (n + align - 1) / align * align;
}

void ExplicitEvaluation::spaces() {
  const size_t n = g_.buffers.size();
  space_.assign(n, Memories::kNone);
  out_.sharing.assign(n, -1);
  for (size_t b = 0; b < n; b++)
    if (isScratch(b) || (set_.buffers[b].kind == PlanBuffer::Output && isMade(b)))
      space_[b] = m_.scratch;
  std::vector<bool> matrix(n), vector(n), gathered(n);
  for (size_t s = 0; s < g_.stages.size(); s++) {
    for (const Touch& t : g_.stages[s].reads) {
      if (isMove(s)) continue;
      const auto b = static_cast<size_t>(t.buffer);
      (facts_.operands[s].has(b) ? matrix : vector)[b] = true;
      for (const AxisSum& d : t.dims)
        if (!d.known) gathered[b] = true;
    }
    if (const int b = facts_.operands[s].sums; b >= 0 && isScratch(b) && !split())
      space_[static_cast<size_t>(b)] = m_.result;
  }
  for (size_t b = 0; b < n; b++) {
    const bool input = !isScratch(b) && set_.buffers[b].kind != PlanBuffer::Output;
    if (!input || !(matrix[b] || vector[b]) || gathered[b] || (matrix[b] && vector[b] && split()))
      continue;
    const bool weights =
        set_.buffers[b].kind == PlanBuffer::Constant && m_.weights != Memories::kNone;
    space_[b] = weights ? m_.weights : matrix[b] ? m_.operands : m_.scratch;
  }
  keepApart();
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (const int into = set_.inPlace[b]; isScratch(b) && into >= 0)
      shareMemory(b, static_cast<size_t>(into));
}

bool ExplicitEvaluation::isMade(size_t b) const {
  const std::vector<ExplicitFacts::Stored>& stores = facts_.stores[b];
  for (const ExplicitFacts::Stored& s : stores)
    if (!s.plain || out_.depth[s.stage] != out_.held[b] || !isOwn(s.stage)) return false;
  if (stores.size() < 2) return !stores.empty() && !storedByUnit(b);
  const std::vector<Span>& part = out_.regions.buffers[b];
  const auto volume = [](const std::vector<Span>& spans) {
    int64_t n = 1;
    for (const Span& s : spans) n *= s.size;
    return n;
  };
  std::vector<std::vector<Span>> parts;
  int64_t missing = volume(part);
  for (const ExplicitFacts::Stored& s : stores) {
    std::vector<Span>& mine = parts.emplace_back();
    const Touch& t = g_.stages[s.stage].writes[s.write];
    for (size_t d = 0; d < t.dims.size(); d++)
      mine.push_back(spanOf(t.dims[d], out_.regions.stages[s.stage], g_.buffers[b][d]));
    missing -= volume(mine);
    for (size_t k = 0; k + 1 < parts.size(); k++) {
      bool apart = false;
      for (size_t d = 0; d < mine.size(); d++) {
        const Span &x = mine[d], &y = parts[k][d];
        apart |= x.movesAs(y) && (x.base + x.size <= y.base || y.base + y.size <= x.base);
      }
      if (!apart) return false;
    }
  }
  return missing == 0 && !storedByUnit(b);
}

Span ExplicitEvaluation::widened(Span s, int64_t extent, int depth) const {
  for (size_t i = static_cast<size_t>(depth); i < tiling().order.size(); i++) {
    const auto j = static_cast<size_t>(tiling().order[i]);
    s.size += std::abs(s.coefficients[j]) * (counts_[j] - 1);
    s.base += std::min<int64_t>(0, s.coefficients[j]) * (counts_[j] - 1);
    s.coefficients[j] = 0;
    if (s.isWhole(extent)) return wholeSpan(extent);
  }
  return s;
}

void ExplicitEvaluation::widen() {
  if (tiling().sliding >= 0) return;
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    if (isScratch(b) || !isBrought(b) || set_.buffers[b].kind == PlanBuffer::Output ||
        out_.held[b] <= tiling().grid)
      continue;
    std::vector<Span>& part = out_.regions.buffers[b];
    const std::vector<int64_t>& extents = g_.buffers[b];
    const MemoryPath* path = m_.path(m_.main, space_[b]);
    const auto element = static_cast<double>(facts_.elementBytes[b]);
    const double start =
                     path->startSeconds / path->channels + path->halfBytes / path->bytesPerSecond,
                 before = meanPart(part, extents) * element,
                 most = static_cast<double>(m_.level(space_[b]).bytes) * kSmallShare;
    for (int depth = tiling().grid; depth < out_.held[b]; depth++) {
      double size = 1;
      for (size_t d = 0; d < part.size(); d++)
        size *= meanSize(widened(part[d], extents[d], depth), extents[d]);
      size *= element;
      const double copies = executions(out_.held[b]) / executions(depth);
      if (size > most || size > copies * before ||
          (size - before) / path->bytesPerSecond > (copies - 1) * start)
        continue;
      for (size_t d = 0; d < part.size(); d++) part[d] = widened(part[d], extents[d], depth);
      out_.held[b] = depth;
      break;
    }
  }
}

bool ExplicitEvaluation::storedByUnit(size_t b) const {
  return split() && std::ranges::any_of(facts_.stores[b], [&](const ExplicitFacts::Stored& s) {
           return facts_.products[s.stage] && facts_.itself[s.stage];
         });
}

void ExplicitEvaluation::keepApart() {
  if (m_.result == Memories::kNone) return;
  int64_t used = 0;
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    if (!isScratch(b) || space_[b] != m_.result) continue;
    used += heldBytes(b);
    if (used > m_.level(m_.result).bytes / 2) space_[b] = m_.scratch;
  }
}

bool ExplicitEvaluation::isOwn(size_t s) const {
  for (size_t a = 0; a < g_.stages[s].extents.size(); a++) {
    const Span& span = out_.regions.stages[s][a];
    const int j = g_.follows[s][a];
    const int64_t tile = j < 0 ? 0 : out_.tiling.tile[j];
    const bool own = j >= 0 && span.base == 0 && span.size == tile && span.coefficients[j] == tile;
    if (!own && std::ranges::any_of(span.coefficients, [](int64_t c) { return c != 0; }))
      return false;
  }
  const int depth = out_.depth[s] - (isBehind(s) ? 1 : 0);
  for (int i = 0; i < depth; i++)  // what doesn't depend on a loop around is made again
    if (std::ranges::none_of(out_.regions.stages[s],
                             [&](const Span& x) { return x.dependsOn(out_.tiling.order[i]); }))
      return false;
  return true;
}

void ExplicitEvaluation::shareMemory(size_t b, size_t into) {
  if (out_.held[b] != out_.held[into] || space_[b] != space_[into] || out_.regions.ring[b] >= 0 ||
      out_.regions.ring[into] >= 0)
    return;
  for (size_t d = 0; d < g_.buffers[b].size(); d++) {
    const Span &x = out_.regions.buffers[b][d], &y = out_.regions.buffers[into][d];
    if (!(x == y)) return;
  }
  out_.sharing[b] = out_.sharing[into] >= 0 ? out_.sharing[into] : static_cast<int>(into);
}

int64_t ExplicitEvaluation::exchangeBytes() const {
  for (size_t s = 0; s < g_.stages.size(); s++)
    if (facts_.products[s] && !facts_.itself[s]) return m_.level(m_.scratch).bytes / kExchangeShare;
  return 0;
}

void ExplicitEvaluation::places() {
  std::vector<int> order(g_.stages.size());
  for (size_t s = 0; s < order.size(); s++) order[s] = static_cast<int>(s);
  std::ranges::stable_sort(order, {}, [&](int s) {
    const bool after = set_.stages[s].after;
    return std::pair(after, after ? -out_.depth[s] : out_.depth[s]);
  });
  place_.resize(order.size());
  for (size_t i = 0; i < order.size(); i++) place_[order[i]] = static_cast<int>(i);
}

std::vector<Life> ExplicitEvaluation::uses() const {
  constexpr Life kNever{INT_MAX, -1};
  std::vector<Life> out(g_.buffers.size(), kNever);
  const auto extend = [](Life& l, int first, int last) {
    l.first = std::min(l.first, first);
    l.last = std::max(l.last, last);
  };
  std::vector<Life> inside(tiling().order.size() + 1, kNever);  // [depth] of stages further in
  for (size_t s = 0; s < place_.size(); s++)
    for (int d = 0; d < out_.depth[s]; d++)
      extend(inside[static_cast<size_t>(d)], place_[s], place_[s]);
  for (size_t s = 0; s < g_.stages.size(); s++) {
    const auto touch = [&](int buffer) {
      const auto b = static_cast<size_t>(buffer);
      const Life& loop = inside[static_cast<size_t>(out_.held[b])];
      extend(out[b], place_[s], place_[s]);
      if (out_.depth[s] > out_.held[b]) extend(out[b], loop.first, loop.last);
    };
    for (const auto* touches : {&g_.stages[s].reads, &g_.stages[s].writes})
      for (const Touch& t : *touches) {
        touch(t.buffer);
        if (const int whole = out_.sharing[t.buffer]; whole >= 0) touch(whole);
      }
  }
  return out;
}

std::vector<int64_t> ExplicitEvaluation::peaks(std::vector<Life> live) const {
  const auto lies = [&](size_t b) {
    return levelOf(b) != Memories::kNone && out_.sharing[b] < 0 && live[b].last >= 0;
  };
  std::vector<size_t> buffers;
  std::vector<Life> list;
  for (size_t depth = 0; depth <= tiling().order.size(); depth++) {  // those of one block
    buffers.clear(), list.clear();
    for (size_t b = 0; b < live.size(); b++)
      if (lies(b) && out_.held[b] == static_cast<int>(depth))
        buffers.push_back(b), list.push_back(live[b]);
    nestLives(list);
    for (size_t i = 0; i < list.size(); i++) live[buffers[i]] = list[i];
  }
  const size_t places = g_.stages.size() + 1;
  std::vector<int64_t> change(m_.count() * places);  // [level][place]
  std::vector<int64_t> out(m_.count(), -1);
  for (size_t b = 0; b < live.size(); b++) {
    if (!lies(b)) continue;
    const int64_t n = heldBytes(b);
    int64_t* at = &change[static_cast<size_t>(levelOf(b)) * places];
    at[live[b].first] += n;
    at[live[b].last + 1] -= n;
    out[static_cast<size_t>(levelOf(b))] = 0;
  }
  if (tiling().sync >= 0) {
    int64_t* at = &change[static_cast<size_t>(m_.scratch) * places];
    const int split = place_[static_cast<size_t>(tiling().sync)];
    at[split] += partBytes();
    at[split + 1] -= partBytes();
  }
  for (size_t m = 0; m < out.size(); m++) {
    int64_t now = 0;
    for (size_t i = 0; i < places && out[m] >= 0; i++)
      out[m] = std::max(out[m], now += change[m * places + i]);
  }
  return out;
}

void ExplicitEvaluation::chooseDoubled() {
  doubled_.assign(g_.buffers.size(), false);
  std::vector<int64_t> used(m_.count());
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (isBrought(b) && out_.sharing[b] < 0) used[static_cast<size_t>(space_[b])] += heldBytes(b);
  if (split()) used[static_cast<size_t>(m_.scratch)] += exchangeBytes();
  for (const bool takes : {false, true})
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      if (isScratch(b) || !isBrought(b) || out_.regions.ring[b] >= 0 ||
          takes != (set_.buffers[b].kind == PlanBuffer::Output) || out_.held[b] <= tiling().grid)
        continue;
      if (takes && (tiling().sync >= 0 || space_[b] != m_.scratch || !storesBeside(target_)))
        continue;
      int64_t& n = used[static_cast<size_t>(space_[b])];
      if (n + heldBytes(b) > m_.level(space_[b]).bytes) continue;
      n += heldBytes(b);
      doubled_[b] = true;
    }
}

void ExplicitEvaluation::fit() {
  const std::vector<Life> live = uses();
  for (;;) {
    std::vector<int64_t> used = peaks(live);
    if (int64_t& n = used[static_cast<size_t>(m_.scratch)]; n >= 0 && split()) n += exchangeBytes();
    int largest = -1;
    for (size_t m = 0; m < used.size(); m++) {
      if (used[m] <= m_.level(static_cast<int>(m)).bytes) continue;
      for (size_t b = 0; b < g_.buffers.size(); b++)
        if (space_[b] == static_cast<int>(m) && !isScratch(b) && !readBack_[b] &&
            (largest < 0 || heldBytes(b) > heldBytes(static_cast<size_t>(largest))))
          largest = static_cast<int>(b);
    }
    if (largest >= 0) {
      space_[static_cast<size_t>(largest)] = Memories::kNone;
      continue;
    }
    for (size_t m = 0; m < used.size(); m++)
      out_.overflow += std::max<int64_t>(0, used[m] - m_.level(static_cast<int>(m)).bytes);
    out_.cost.scratchBytes = std::max<int64_t>(0, used[static_cast<size_t>(m_.scratch)]);
    break;
  }
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (out_.sharing[b] >= 0) space_[b] = space_[static_cast<size_t>(out_.sharing[b])];
}

}  // namespace tektite
