#include <algorithm>
#include <climits>

#include "fusion/explicit_evaluation.h"

namespace tektite {
namespace {

constexpr double kSmallShare = 1.0 / 16;  // of a memory, of an operand that isn't brought by parts

}  // namespace

int64_t ExplicitEvaluation::heldBytes(size_t b) const {
  int64_t n = bytes(set_.buffers[b].type.dtype);
  for (size_t d = 0; d < g_.buffers[b].size(); d++)
    n *= std::clamp<int64_t>(out_.regions.buffers[b][d].size, 0, g_.buffers[b][d]);
  const int64_t align = target_.level(out_.space[b])->align;
  return (n + align - 1) / align * align;
}

void ExplicitEvaluation::spaces() {
  const size_t n = g_.buffers.size();
  out_.space.assign(n, "");
  out_.sharing.assign(n, -1);
  std::vector<bool> matrix(n), vector(n), gathered(n), sums(n);
  for (size_t s = 0; s < g_.stages.size(); s++) {
    for (const Touch& t : g_.stages[s].reads) {
      const auto b = static_cast<size_t>(t.buffer);
      if (facts_.moves[s] && !isScratch(b)) continue;
      (facts_.operands[s].has(b) ? matrix : vector)[b] = true;
      for (const AxisSum& d : t.dims)
        if (!d.known) gathered[b] = true;
    }
    if (const int b = facts_.operands[s].sums; b >= 0) sums[static_cast<size_t>(b)] = true;
  }
  for (size_t b = 0; b < n; b++) {
    if (isScratch(b)) {
      out_.space[b] = sums[b] && !split() ? target_.matrix.result : target_.scratch;
    } else if (set_.buffers[b].kind == PlanBuffer::Output) {
      const auto& stores = facts_.stores[b];
      if (stores.size() == 1 && stores[0].plain && out_.depth[stores[0].stage] == out_.held[b] &&
          isOwn(stores[0].stage) && !storedByUnit(b))
        out_.space[b] = target_.scratch;
    } else if ((matrix[b] || vector[b]) && !gathered[b] && !(matrix[b] && vector[b] && split())) {
      const bool weights = set_.buffers[b].kind == PlanBuffer::Constant && !target_.weights.empty();
      out_.space[b] = weights ? target_.weights : matrix[b] ? target_.operands : target_.scratch;
    }
  }
  keepApart();
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (const int into = set_.inPlace[b]; isScratch(b) && into >= 0)
      shareMemory(static_cast<int>(b), into);
}

std::vector<Span> ExplicitEvaluation::widened(size_t b, int depth) const {
  std::vector<Span> spans = out_.regions.buffers[b];
  for (size_t d = 0; d < spans.size(); d++)
    for (size_t i = static_cast<size_t>(depth); i < tiling().order.size(); i++) {
      const auto j = static_cast<size_t>(tiling().order[i]);
      spans[d].size += std::abs(spans[d].coefficients[j]) * (counts_[j] - 1);
      spans[d].base += std::min<int64_t>(0, spans[d].coefficients[j]) * (counts_[j] - 1);
      spans[d].coefficients[j] = 0;
      if (spans[d].isWhole(g_.buffers[b][d])) spans[d] = wholeSpan(g_.buffers[b][d]);
    }
  return spans;
}

void ExplicitEvaluation::widen() {
  if (tiling().sliding >= 0) return;
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    if (isScratch(b) || out_.space[b].empty() || set_.buffers[b].kind == PlanBuffer::Output)
      continue;
    const MemoryPath* path = target_.path("main", out_.space[b]);
    const double start =
                     path->startSeconds / path->channels + path->halfBytes / path->bytesPerSecond,
                 element = bytes(set_.buffers[b].type.dtype),
                 before = meanPart(out_.regions.buffers[b], g_.buffers[b]) * element,
                 most = static_cast<double>(target_.level(out_.space[b])->bytes) * kSmallShare;
    for (int depth = tiling().grid; depth < out_.held[b]; depth++) {
      const std::vector<Span> wide = widened(b, depth);
      const double size = meanPart(wide, g_.buffers[b]) * element,
                   copies = executions(out_.held[b]) / executions(depth);
      if (size > most || size > copies * before ||
          (size - before) / path->bytesPerSecond > (copies - 1) * start)
        continue;
      out_.regions.buffers[b] = wide;
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
  int64_t used = 0;
  const Level* level = target_.level(target_.matrix.result);
  for (size_t b = 0; level && b < g_.buffers.size(); b++) {
    if (!isScratch(b) || out_.space[b] != level->name) continue;
    used += heldBytes(b);
    if (used > level->bytes / 2) out_.space[b] = target_.scratch;
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

void ExplicitEvaluation::shareMemory(int b, int into) {
  if (out_.held[b] != out_.held[into] || out_.space[b] != out_.space[into] ||
      out_.regions.ring[b] >= 0 || out_.regions.ring[into] >= 0)
    return;
  for (size_t d = 0; d < g_.buffers[b].size(); d++) {
    const Span &x = out_.regions.buffers[b][d], &y = out_.regions.buffers[into][d];
    if (x.base != y.base || x.size != y.size || x.coefficients != y.coefficients) return;
  }
  out_.sharing[b] = out_.sharing[into] >= 0 ? out_.sharing[into] : into;
}

int64_t ExplicitEvaluation::exchangeBytes() const {
  for (size_t s = 0; s < g_.stages.size(); s++)
    if (facts_.products[s] && !facts_.itself[s])
      return target_.level(target_.scratch)->bytes / kExchangeShare;
  return 0;
}

std::vector<int> ExplicitEvaluation::places() const {
  std::vector<int> order(g_.stages.size()), place(g_.stages.size());
  for (size_t s = 0; s < order.size(); s++) order[s] = static_cast<int>(s);
  std::ranges::stable_sort(order, {}, [&](int s) {
    const bool after = set_.stages[s].after;
    return std::pair(after, after ? -out_.depth[s] : out_.depth[s]);
  });
  for (size_t i = 0; i < order.size(); i++) place[order[i]] = static_cast<int>(i);
  return place;
}

std::vector<Life> ExplicitEvaluation::lives() const {
  const std::vector<int> place = places();
  std::vector<Life> out(g_.buffers.size(), {INT_MAX, -1});
  const auto extend = [](Life& l, int p) {
    l.first = std::min(l.first, p);
    l.last = std::max(l.last, p);
  };
  std::vector<int> seen(out.size(), -1);  // the stage that touched it last
  for (size_t s = 0; s < g_.stages.size(); s++) {
    const auto touch = [&](int buffer) {
      const auto b = static_cast<size_t>(buffer);
      if (seen[b] == static_cast<int>(s)) return;
      seen[b] = static_cast<int>(s);
      extend(out[b], place[s]);
      for (size_t k = 0; k < g_.stages.size() && out_.depth[s] > out_.held[b]; k++)
        if (out_.depth[k] > out_.held[b]) extend(out[b], place[k]);
    };
    for (const auto* touches : {&g_.stages[s].reads, &g_.stages[s].writes})
      for (const Touch& t : *touches) {
        touch(t.buffer);
        if (const int whole = out_.sharing[t.buffer]; whole >= 0) touch(whole);
      }
  }
  std::map<int, std::vector<size_t>> byDepth;
  for (size_t b = 0; b < out.size(); b++)
    if (!out_.space[b].empty() && out_.sharing[b] < 0 && out[b].last >= 0)
      byDepth[out_.held[b]].push_back(b);
  for (const auto& [depth, buffers] : byDepth) {
    std::vector<Life> list;
    for (size_t b : buffers) list.push_back(out[b]);
    nestLives(list);
    for (size_t i = 0; i < list.size(); i++) out[buffers[i]] = list[i];
  }
  return out;
}

std::map<std::string, int64_t> ExplicitEvaluation::peaks() const {
  const std::vector<Life> live = lives();
  std::map<std::string, std::vector<size_t>> inSpace;
  for (size_t b = 0; b < live.size(); b++)
    if (!out_.space[b].empty() && out_.sharing[b] < 0 && live[b].last >= 0)
      inSpace[out_.space[b]].push_back(b);
  std::map<std::string, int64_t> out;
  for (const auto& [space, buffers] : inSpace) {
    std::vector<int64_t> change(g_.stages.size() + 1);  // from place to place
    for (size_t b : buffers) {
      const int64_t n = heldBytes(b);
      change[static_cast<size_t>(live[b].first)] += n;
      change[static_cast<size_t>(live[b].last) + 1] -= n;
    }
    if (tiling().sync >= 0 && space == target_.scratch) {
      const auto at = static_cast<size_t>(places()[static_cast<size_t>(tiling().sync)]);
      change[at] += partBytes();
      change[at + 1] -= partBytes();
    }
    int64_t now = 0, &most = out[space];
    for (const int64_t n : change) most = std::max(most, now += n);
  }
  return out;
}

void ExplicitEvaluation::chooseDoubled() {
  doubled_.assign(g_.buffers.size(), false);
  std::map<std::string, int64_t> used;
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (!out_.space[b].empty() && out_.sharing[b] < 0) used[out_.space[b]] += heldBytes(b);
  for (const bool takes : {false, true})
    for (size_t b = 0; b < g_.buffers.size(); b++) {
      if (isScratch(b) || out_.space[b].empty() || out_.regions.ring[b] >= 0 ||
          takes != (set_.buffers[b].kind == PlanBuffer::Output) || out_.held[b] <= tiling().grid)
        continue;
      if (takes &&
          (tiling().sync >= 0 || out_.space[b] != target_.scratch || !storesBeside(target_)))
        continue;
      int64_t& n = used[out_.space[b]];
      if (n + heldBytes(b) > target_.level(out_.space[b])->bytes) continue;
      n += heldBytes(b);
      doubled_[b] = true;
    }
}

bool ExplicitEvaluation::isReadBack(size_t b) const {
  return g_.output[b] && std::ranges::any_of(g_.stages, [&](const StageShape& s) {
           return std::ranges::any_of(
               s.reads, [&](const Touch& t) { return t.buffer == static_cast<int>(b); });
         });
}

void ExplicitEvaluation::fit() {
  for (;;) {
    const auto used = peaks();
    int largest = -1;
    for (auto [name, n] : used) {
      if (name == target_.scratch && split()) n += exchangeBytes();
      if (n <= target_.level(name)->bytes) continue;
      for (size_t b = 0; b < g_.buffers.size(); b++)
        if (out_.space[b] == name && !isScratch(b) && !isReadBack(b) &&
            (largest < 0 || heldBytes(b) > heldBytes(static_cast<size_t>(largest))))
          largest = static_cast<int>(b);
    }
    if (largest >= 0) {
      out_.space[largest].clear();
      continue;
    }
    for (auto [name, n] : used) {
      if (name == target_.scratch && split()) n += exchangeBytes();
      out_.overflow += std::max<int64_t>(0, n - target_.level(name)->bytes);
      if (name == target_.scratch) out_.cost.scratchBytes = n;
    }
    break;
  }
  for (size_t b = 0; b < g_.buffers.size(); b++)
    if (out_.sharing[b] >= 0) out_.space[b] = out_.space[out_.sharing[b]];
}

}  // namespace tektite
