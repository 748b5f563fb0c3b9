#include <algorithm>
#include <cmath>

#include "backends/npu/walk.h"
#include "fusion/product_tile.h"

namespace tektite {

using namespace code;

void Walk::copy(const CodeStmt& s, const Copy& c) {
  if (!c.to) return occupy(c.queue, c.queue, 0, 0, "prefetch");
  const int from = s.refs[0].buffer, to = s.refs[1].buffer;
  const double n = elements(s) * bytes(code_.buffers[from].type);
  const std::string &a = spaceOf(from), &b = spaceOf(to);
  const MemoryPath* path = target_.path(a, b);
  if (a == "main") countMain(from, false, n);
  if (b == "main") countMain(to, true, n);
  double seconds = 0;
  std::string engine = c.queue.empty() ? "vector" : c.queue;
  if (path && n > 0) {
    engine = path->engine;
    seconds = path->startSeconds / path->channels + (n + path->halfBytes) / path->bytesPerSecond;
  } else if (n > 0) {
    seconds = (target_.vectorStartCycles + n / target_.vectorBytes) / target_.hertz;
  }
  const bool far = a == "main" || b == "main";
  const double latency = far ? target_.latencySeconds : 0;
  occupy(engine, c.queue, seconds, n > 0 ? latency : 0,
         code_.buffers[far && a == "main" ? from : to].name);
}

double Walk::elements(const CodeStmt& s) {
  std::vector<int64_t> low, high;
  for (const CodeAxis& a : s.axes) {
    low.push_back(0);
    high.push_back(std::max<int64_t>(0, machine_.integer(a.extent)));
  }
  const CodeRef& from = s.refs[0];
  const CodeBuffer& b = code_.buffers[from.buffer];
  bool none = false;
  for (size_t d = 0; d < from.index.size() && s.expr >= 0; d++) {
    const int64_t size = machine_.integer(b.shape[d]);
    const auto at = [&](size_t moved) {
      for (size_t k = 0; k < s.axes.size(); k++)
        machine_.variables[s.axes[k].slot].i = k == moved ? 1 : 0;
      machine_.newEvaluation();
      return machine_.index(from.index[d]);
    };
    const int64_t zero = at(s.axes.size());
    int only = -1, several = 0;
    int64_t step = 0;
    for (size_t k = 0; k < s.axes.size(); k++)
      if (const int64_t c = at(k) - zero; c != 0) only = static_cast<int>(k), step = c, several++;
    if (several == 0) none = none || zero < 0 || zero >= size;
    if (several != 1 || step < 1) continue;
    low[only] = std::max(low[only], zero < 0 ? (-zero + step - 1) / step : 0);
    high[only] = std::min(high[only], zero < size ? (size - 1 - zero) / step + 1 : 0);
  }
  double n = none ? 0 : 1;
  for (size_t k = 0; k < low.size(); k++)
    n *= static_cast<double>(std::max<int64_t>(0, high[k] - low[k]));
  return n;
}

void Walk::intrin(const CodeStmt& s, const Intrin& i) {
  const IntrinDef& def = *s.intrin->source;
  std::map<std::string, double> dims;
  std::unordered_map<std::string, Expr> values;
  for (size_t k = 0; k < s.dims.size(); k++) {
    const int64_t n = machine_.integer(s.dims[k]);
    dims[def.dims[k].name] = static_cast<double>(n);
    values.emplace(def.dims[k].name, Expr(n));
  }
  const MatrixUnit& unit = target_.matrix;
  if (unit.engine.empty() || i.queue != unit.engine) {
    const double cycles = target_.vectorStartCycles / target_.hertz;
    return occupy(i.queue.empty() ? "vector" : i.queue, i.queue, cycles, 0, i.name);
  }
  // By what it reads: operands, or sums that are there.
  const auto left =
      std::ranges::find_if(def.params, [&](const Param& p) { return p.buffer.space == unit.left; });
  Sums& sums = sumsOf(s);
  if (left == def.params.end()) {
    const Buffer& results = def.params.front().buffer;
    double size = bytes(results.type);
    for (const Expr& e : results.shape)
      size *= static_cast<double>(asInteger(simplify(substitute(e, values), {})).value_or(1));
    return output(i, sums, size);
  }
  const bool each = left->buffer.shape.size() == 3;
  const int element = bytes(def.params.back().buffer.type);
  const double seconds = productSeconds(target_, each, dims["m"], dims["n"], dims["k"], element);
  Engine& mac = core_->engines[unit.engine];
  mac.free = std::max(mac.free, sums.read);
  occupy(unit.engine, i.queue, seconds, 0, i.name);
  sums.made = mac.free;
}

Walk::Sums& Walk::sumsOf(const CodeStmt& s) {
  for (const CodeRef& r : s.refs)
    if (spaceOf(r.buffer) == target_.matrix.result)
      return core_->sums[{r.buffer, r.index.size() > 2 ? machine_.index(r.index[0]) : 0}];
  return core_->sums[{-1, 0}];
}

void Walk::output(const Intrin& i, Sums& sums, double bytes) {
  const std::string& engine = outputPath(target_)->engine;
  Engine& e = core_->engines[engine];
  e.free = std::max(e.free, sums.made);  // in the order of the queue, on an engine of its own
  const double before = core_->time;
  occupy(engine, "", outputSeconds(target_, bytes), 0, i.name);
  core_->time = before;
  sums.read = e.free;
  core_->engines[i.queue].ends.push_back(e.free);
}

void Walk::vector(const CodeStmt& s) {
  Cycles c;
  VectorStores none;
  nest(s, 1, c, none);
  if (c.starts + c.work > 0) occupy("vector", "", (c.starts + c.work) / target_.hertz, 0, "vector");
}

/// Instructions take any number of rows, and tails of them.
void Walk::nest(const CodeStmt& s, double times, Cycles& cycles, VectorStores& before) {
  if (s.source->as<For>()) {
    machine_.newEvaluation();
    const int64_t n = std::max<int64_t>(0, machine_.integer(s.expr));
    bool varies = false;
    for (const CodeStmt& inner : s.body) {
      const auto& below = factsOf(inner).extents;
      varies = varies || std::ranges::count(below, s.slot) > 0;
    }
    if (n == 0) return;
    double starts = 0;
    for (int64_t i = 0; i < (varies ? n : 1); i++) {
      machine_.variables[s.slot].i = i;
      Cycles one;
      nests(s.body, varies ? times : times * static_cast<double>(n), one);
      cycles.work += one.work;
      starts = std::max(starts, one.starts);
    }
    cycles.starts += starts;
    return;
  }
  if (s.source->as<Alloc>()) return;
  if (const Store* t = s.source->as<Store>()) return store(s, *t, times, cycles, before);
  nests(s.body, times, cycles);
}

void Walk::nests(const std::vector<CodeStmt>& body, double times, Cycles& cycles) {
  VectorStores stores;
  for (const CodeStmt& s : body) nest(s, times, cycles, stores);
}

void Walk::store(const CodeStmt& s, const Store& t, double times, Cycles& cycles,
                 VectorStores& before) {
  const Stored& stored = storedOf(s, t, before);
  if (stored.byUnit) {  // its own engine stores what it has summed up
    const int to = s.refs[0].buffer;
    const double n = times * bytes(code_.buffers[to].type);
    countMain(to, true, n);
    const MemoryPath* path = target_.path(target_.matrix.result, "main");
    return occupy(path->engine, "", (n + path->halfBytes) / path->bytesPerSecond,
                  target_.latencySeconds, code_.buffers[to].name);
  }
  cycles.starts += stored.work.slots * target_.vectorStartCycles;
  cycles.work += times * stored.work.bytes / target_.vectorBytes / target_.slotsPerCycle;
  for (const CodeRef& r : s.refs)
    if (spaceOf(r.buffer) == "main") direct(r.buffer, true, times);
  for (const int b : stored.loads) direct(b, false, times);
}

const Walk::Stored& Walk::storedOf(const CodeStmt& s, const Store& t, VectorStores& before) {
  auto [it, fresh] = stored_.try_emplace(&s);
  Stored& out = it->second;
  if (!fresh) return out;
  for (size_t k = 0; k < t.values.size(); k++) {
    const VectorWork w = before.of(t.targets[k].buffer, t.values[k], !t.combine.empty());
    out.work.slots += w.slots;
    out.work.bytes += w.bytes;
    for (const Expr& l : loadsOf(t.values[k])) {
      const std::string& name = l.as<Load>()->buffer;
      const auto at = space_.find(name);
      if (at == space_.end() || at->second != "main") continue;
      const auto buffer = std::ranges::find(code_.buffers, name, &CodeBuffer::name);
      if (buffer != code_.buffers.end())
        out.loads.push_back(static_cast<int>(buffer - code_.buffers.begin()));
    }
  }
  out.byUnit = byUnit(s, t);
  return out;
}

bool Walk::byUnit(const CodeStmt& s, const Store& t) const {
  if (s.refs.size() != 1 || spaceOf(s.refs[0].buffer) != "main" ||
      !target_.path(target_.matrix.result, "main"))
    return false;
  for (const Expr& l : loadsOf(t.values[0])) {
    const auto at = space_.find(l.as<Load>()->buffer);
    if (at == space_.end() || at->second != target_.matrix.result) return false;
  }
  return !loadsOf(t.values[0]).empty();
}

void Walk::direct(int buffer, bool written, double times) {
  const double n = times * bytes(code_.buffers[buffer].type);
  countMain(buffer, written, n);
  const MemoryPath* path =
      written ? target_.path(target_.scratch, "main") : target_.path("main", target_.scratch);
  occupy(path->engine, "", 8 * n / path->bytesPerSecond, target_.latencySeconds,
         code_.buffers[buffer].name);
}

}  // namespace tektite
