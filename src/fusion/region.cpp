#include "fusion/region.h"

#include <algorithm>
#include <numeric>

#include "fusion/stage_memory.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Narrows the axes that make up a written dim to what is demanded of it.
void demandAxes(const AxisSum& sum, const Span& want, const StageShape& s, std::vector<Span>& axes,
                const std::vector<int64_t>& counts) {
  const size_t tiles = counts.size();
  const auto ask = [&](int axis, const Span& span) {
    if (!(axes[axis] == span)) axes[axis] = unite(axes[axis], span, s.extents[axis]);
  };
  if (!sum.known) return;
  Span rest = want;
  rest.base -= sum.constant;
  for (size_t i = 0; i < sum.terms.size(); i++) {
    const auto [axis, c] = sum.terms[i];
    if (c <= 0) return ask(axis, wholeSpan(s.extents[axis]));
    if (c == 1) return ask(axis, rest);
    Span high{{}, 0, 0}, low = high;
    int64_t lowEnd = 0;
    for (size_t j = 0; j < tiles; j++) {
      const int64_t k = rest.coefficients[j];
      (k % c == 0 ? high.coefficients[j] : low.coefficients[j]) = k % c == 0 ? k / c : k;
      if (k % c != 0) lowEnd += k * (counts[j] - 1);
    }
    high.base = rest.base >= 0 ? rest.base / c : -((-rest.base + c - 1) / c);
    low.base = rest.base - high.base * c;
    const bool lowInside =
        std::ranges::all_of(low.coefficients, [](int64_t k) { return k >= 0; }) &&
        lowEnd + low.base < c;
    if (lowInside && rest.size <= c && (low.base + rest.size <= c || low.base == 0)) {
      high.size = 1;
      low.size = rest.size;
    } else if (lowEnd == 0 && low.base == 0) {
      high.size = (rest.size + c - 1) / c;
      low = {{}, 0, c};
    } else {
      for (; i < sum.terms.size(); i++)
        ask(sum.terms[i].first, wholeSpan(s.extents[sum.terms[i].first]));
      return;
    }
    ask(axis, high);
    rest = low;
  }
}

/// Adds what a sum of axes touches of a dim. Mostly it is one axis from end to end, of which the part is known.
void touch(Span& to, const AxisSum& sum, const StageShape& s, const std::vector<Span>& axes,
           int64_t extent) {
  if (extent == 1) {
    if (to.size < 0) to = wholeSpan(1);
    return;
  }
  const int axis =
      sum.known && sum.constant == 0 && sum.terms.size() == 1 ? sum.terms[0].first : -1;
  if (axis < 0 || sum.terms[0].second != 1 || s.extents[axis] != extent || axes[axis].size <= 0) {
    to = unite(to, spanOf(sum, axes, extent), extent);
  } else if (to.size < 0) {
    to = axes[axis];
  } else if (!(to == axes[axis])) {
    to = unite(to, axes[axis], extent);
  }
}

/// Dims of buffers of which tiles may touch less than the span: no touch runs through them with one axis, step by step.
void findGaps(GroupShape& g) {
  std::vector<std::vector<bool>> dense;
  for (const auto& b : g.buffers) dense.emplace_back(b.size(), false);
  g.gaps.assign(g.buffers.size(), {});
  for (size_t s = 0; s < g.stages.size(); s++)
    for (const auto* touches : {&g.stages[s].reads, &g.stages[s].writes})
      for (const Touch& t : *touches)
        for (size_t d = 0; d < t.dims.size(); d++) {
          const AxisSum& sum = t.dims[d];
          const bool gap = sum.known && (sum.terms.size() > 1 ||
                                         (sum.terms.size() == 1 && sum.terms[0].second != 1));
          if (gap)
            g.gaps[t.buffer].push_back({s, d, sum});
          else
            dense[t.buffer][d] = true;
        }
  for (size_t b = 0; b < g.buffers.size(); b++)
    std::erase_if(g.gaps[b], [&](const Gap& gap) { return dense[b][gap.dim]; });
}
constexpr int64_t kMostSlack = int64_t{1} << 31;
bool within(const Interval& i, int64_t most) { return i.low > -most && i.high < most; }

struct UnionFind {
  std::vector<int> parent;
  int find(int x) {
    while (parent[x] != x) x = parent[x] = parent[parent[x]];
    return x;
  }
};

}  // namespace

Span wholeSpan(int64_t extent) { return {{}, 0, extent}; }
Span clipped(const Span& s, int64_t extent) {
  if (std::ranges::any_of(s.coefficients, [](int64_t c) { return c != 0; })) return s;
  const int64_t base = std::max<int64_t>(s.base, 0);
  return {{}, base, std::max<int64_t>(0, std::min(s.base + s.size, extent) - base)};
}
Span unite(const Span& a, const Span& b, int64_t extent) {
  if (a.size < 0) return b.isWhole(extent) ? wholeSpan(extent) : b;
  if (b.size < 0) return a;
  if (!a.movesAs(b)) return wholeSpan(extent);
  Span out{a.coefficients, std::min(a.base, b.base), 0};
  out.size = std::max(a.base + a.size, b.base + b.size) - out.base;
  return out.isWhole(extent) ? wholeSpan(extent) : out;
}

AxisSum axisSum(const Expr& index, const Stage& s) {
  if (const Imm* i = index.as<Imm>()) return {{}, i->integer, true};
  if (const Var* v = index.as<Var>())
    if (const auto axis = std::ranges::find(s.axes, v->name, &StageAxis::var); axis != s.axes.end())
      return {{{static_cast<int>(axis - s.axes.begin()), 1}}, 0, true};
  const Linear linear = linearOf(index);
  AxisSum out{{}, linear.constant, true};
  Ranges ranges;
  for (const auto& [term, c] : linear.terms) {
    const Var* v = term.as<Var>();
    const auto axis = v ? std::ranges::find(s.axes, v->name, &StageAxis::var) : s.axes.end();
    if (axis == s.axes.end()) {
      if (ranges.empty())
        for (const StageAxis& a : s.axes) ranges[a.var] = {0, std::max<int64_t>(a.extent - 1, 0)};
      const Interval bounds = boundsOf(term, ranges);
      if (!loadsOf(term).empty() || !within(bounds, kMostSlack)) return {{}, 0, false};
      out.constant += c * (c > 0 ? bounds.low : bounds.high);
      out.slack = std::max<int64_t>(out.slack, 0) + std::abs(c) * (bounds.high - bounds.low);
      out.known = false;
      continue;
    }
    out.terms.push_back({static_cast<int>(axis - s.axes.begin()), c});
  }
  std::ranges::sort(out.terms, [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

GroupShape shapeOf(StageSet& set) {
  findFacts(set);
  GroupShape g;
  std::unordered_map<std::string_view, int> number;
  for (const PlanBuffer& b : set.buffers) {
    number[b.name] = static_cast<int>(g.buffers.size());
    g.buffers.push_back(b.type.extents());
    g.output.push_back(b.kind == PlanBuffer::Output);
  }
  g.writer.assign(g.buffers.size(), -1);
  for (size_t s = 0; s < set.stages.size(); s++) {
    const StageFacts& facts = *set.facts[s];
    std::vector<int> numbers;
    for (const std::string& name : facts.buffers) numbers.push_back(number.at(name));
    StageShape shape = facts.shape;
    for (auto* touches : {&shape.reads, &shape.writes})
      for (Touch& t : *touches) t.buffer = numbers[static_cast<size_t>(t.buffer)];
    for (const Touch& t : shape.writes) g.writer[t.buffer] = static_cast<int>(s);
    g.stages.push_back(std::move(shape));
  }
  findGaps(g);
  return g;
}

double touchedOf(const GroupShape& g, const Regions& regions, size_t buffer, size_t dim,
                 int64_t slack) {
  const double whole = static_cast<double>(
      std::clamp<int64_t>(regions.buffers[buffer][dim].size, 0, g.buffers[buffer][dim]));
  double most = -1;
  for (const Gap& gap : g.gaps[buffer]) {
    if (gap.dim != dim) continue;
    double count = 1, reach = 1;  // elements, and the span that they lie in
    for (size_t i = gap.sum.terms.size(); i-- > 0;) {
      const auto [axis, c] = gap.sum.terms[i];
      const double n = static_cast<double>(std::clamp<int64_t>(
                       regions.stages[gap.stage][axis].size, 0, g.stages[gap.stage].extents[axis])),
                   step = static_cast<double>(std::abs(c));
      const double wider = reach + step * std::max(0.0, n - 1);
      count = step > reach + static_cast<double>(slack) ? count * n : count / reach * wider;
      reach = wider;
    }
    most = std::max(most, count);
  }
  return most < 0 ? whole : std::min(most, whole);
}

void setRoot(GroupShape& g, int stage, std::vector<int> axes) {
  g.root = stage;
  while (axes.size() > kMostTiles) {  // the smallest stay whole
    const auto smallest =
        std::ranges::min_element(axes, {}, [&](int a) { return g.stages[stage].extents[a]; });
    axes.erase(smallest);
  }
  g.rootAxes = std::move(axes);
  // Axes that run over the same dim of a buffer, element for element, are one axis.
  std::vector<int> firstAxis, firstDim;
  int n = 0;
  for (const StageShape& s : g.stages)
    firstAxis.push_back(n), n += static_cast<int>(s.extents.size());
  for (const auto& b : g.buffers) firstDim.push_back(n), n += static_cast<int>(b.size());
  UnionFind classes;
  classes.parent.resize(static_cast<size_t>(n));
  std::iota(classes.parent.begin(), classes.parent.end(), 0);
  for (size_t s = 0; s < g.stages.size(); s++)
    for (const auto* touches : {&g.stages[s].reads, &g.stages[s].writes})
      for (const Touch& t : *touches)
        for (size_t d = 0; d < t.dims.size(); d++) {
          const AxisSum& sum = t.dims[d];
          if (!sum.known || sum.terms.size() != 1 || sum.constant != 0 || sum.terms[0].second != 1)
            continue;
          if (g.stages[s].extents[sum.terms[0].first] != g.buffers[t.buffer][d]) continue;
          classes.parent[classes.find(firstAxis[s] + sum.terms[0].first)] =
              classes.find(firstDim[t.buffer] + static_cast<int>(d));
        }
  g.follows.clear();
  for (size_t s = 0; s < g.stages.size(); s++) {
    g.follows.emplace_back(g.stages[s].extents.size(), -1);
    for (size_t j = 0; j < g.rootAxes.size(); j++)
      for (size_t a = 0; a < g.stages[s].extents.size(); a++)
        if (classes.find(firstAxis[s] + static_cast<int>(a)) ==
                classes.find(firstAxis[stage] + g.rootAxes[j]) &&
            !std::ranges::count(g.follows[s], static_cast<int>(j)) && g.follows[s][a] < 0)
          g.follows[s][a] = static_cast<int>(j);
  }
  for (size_t j = 0; j < g.rootAxes.size(); j++) {
    std::ranges::replace(g.follows[stage], static_cast<int>(j), -1);
    g.follows[stage][g.rootAxes[j]] = static_cast<int>(j);
  }
}

Span spanOf(const AxisSum& sum, const std::vector<Span>& axes, int64_t extent) {
  if (!sum.known && sum.slack < 0) return wholeSpan(extent);
  Span out{{}, sum.constant, 1 + std::max<int64_t>(sum.slack, 0)};
  for (const auto& [axis, c] : sum.terms) {
    const Span& a = axes[axis];
    if (a.size == 0) return {{}, 0, 0};
    for (size_t j = 0; j < kMostTiles; j++) out.coefficients[j] += c * a.coefficients[j];
    out.base += c * (c > 0 ? a.base : a.base + a.size - 1);
    out.size += std::abs(c) * (a.size - 1);
  }
  return out.isWhole(extent) ? wholeSpan(extent) : out;
}

bool slides(const Span& s, int sliding) {
  return sliding >= 0 && s.coefficients[sliding] > 0 && s.size > s.coefficients[sliding];
}
Span newest(const Span& s, int sliding) {
  Span out = s;
  out.size = s.coefficients[sliding];
  out.base += s.size - out.size;
  return out;
}

Regions inferRegions(const GroupShape& g, const std::vector<int64_t>& tile, int sliding) {
  Regions out;
  inferRegions(g, tile, sliding, out);
  return out;
}

void inferRegions(const GroupShape& g, const std::vector<int64_t>& tile, int sliding,
                  Regions& out) {
  const size_t tiles = tile.size();
  std::vector<int64_t> counts;
  std::array<Span, kMostTiles> own;
  for (size_t j = 0; j < tiles; j++) {
    const int64_t extent = g.stages[g.root].extents[g.rootAxes[j]];
    counts.push_back(std::max<int64_t>(1, (extent + tile[j] - 1) / std::max<int64_t>(tile[j], 1)));
    own[j] = wholeSpan(extent);
    if (tile[j] < extent) own[j].size = own[j].coefficients[j] = tile[j];
  }
  out.buffers.resize(g.buffers.size());
  out.stages.resize(g.stages.size());
  for (size_t b = 0; b < g.buffers.size(); b++) out.buffers[b].assign(g.buffers[b].size(), {});
  for (size_t s = 0; s < g.stages.size(); s++) out.stages[s].assign(g.stages[s].extents.size(), {});
  for (int s = static_cast<int>(g.stages.size()) - 1; s >= 0; s--) {
    const StageShape& shape = g.stages[s];
    std::vector<Span>& axes = out.stages[s];
    bool writesOutput = s == g.root;
    for (const Touch& w : shape.writes) {
      writesOutput |= g.output[w.buffer];
      for (size_t d = 0; d < w.dims.size(); d++) {
        const Span& want = out.buffers[w.buffer][d];
        if (want.size < 0) continue;
        const bool ring = !g.output[w.buffer] && slides(want, sliding);
        demandAxes(w.dims[d], ring ? newest(want, sliding) : want, shape, axes, counts);
      }
    }
    for (size_t a = 0; a < axes.size(); a++) {
      const bool walked = g.walked >= 0 && g.follows[s][a] == g.walked;
      const int j = shape.reduce[a] && s != g.root && !walked ? -1 : g.follows[s][a];
      if ((writesOutput || walked) && j >= 0)
        axes[a] = unite(axes[a], own[static_cast<size_t>(j)], shape.extents[a]);
      if (axes[a].size < 0 || shape.reduce[a] ||
          writesOutput)  // every element of an output is some tile's own
        if (j < 0) axes[a] = wholeSpan(shape.extents[a]);
    }
    for (const auto* touches : {&shape.writes, &shape.reads})
      for (const Touch& t : *touches)
        for (size_t d = 0; d < t.dims.size(); d++)
          touch(out.buffers[t.buffer][d], t.dims[d], shape, axes, g.buffers[t.buffer][d]);
  }
  out.ring.assign(g.buffers.size(), -1);
  for (size_t b = 0; b < g.buffers.size(); b++)
    for (size_t d = 0; d < g.buffers[b].size(); d++)
      if (slides(out.buffers[b][d], sliding)) out.ring[b] = static_cast<int>(d);
}

}  // namespace tektite
