#include "backends/npu/simulate.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/npu/walk.h"

namespace tektite {

using namespace code;

Simulated Walk::run() {
  out_.launches = 1;
  outside(code_.body);
  runList();
  double end = 0;
  for (const Core& c : cores_) end = std::max(end, c.time);
  out_.cycles = (end + target_.launchSeconds) * target_.hertz;
  for (const Core& c : cores_)
    for (const auto& [name, e] : c.engines) out_.busy[name] += e.busy * target_.hertz;
  const auto at = out_.peaks.find(target_.scratch);
  out_.scratchPeak = at == out_.peaks.end() ? 0 : at->second;
  return std::move(out_);
}

std::map<std::string, std::string> Walk::spacesOf(const Kernel& k) {
  std::map<std::string, std::string> out;
  const std::function<void(const Block&)> go = [&](const Block& block) {
    for (const Stmt& s : block) {
      if (const Alloc* a = s.as<Alloc>()) out[a->buffer.name] = a->buffer.space;
      if (const BlockStmt* b = s.as<BlockStmt>()) go(b->body);
      if (const For* f = s.as<For>()) go(f->body);
      if (const If* i = s.as<If>()) go(i->body);
    }
  };
  go(k.body);
  return out;
}

int64_t Walk::sizeOf(int buffer) {
  const CodeBuffer& b = code_.buffers[buffer];
  int64_t n = bytes(b.type);
  for (int e : b.shape) n *= std::max<int64_t>(0, machine_.integer(e));
  return n;
}

void Walk::variablesIn(int node, std::vector<int>& out) const {
  if (node < 0) return;
  const Node& n = code_.nodes[node];
  if (n.kind == Node::Var) out.push_back(n.slot);
  for (int a : n.args) variablesIn(a, out);
}

const Walk::Facts& Walk::factsOf(const CodeStmt& s) {
  const auto [it, fresh] = facts_.try_emplace(&s);
  if (!fresh) return it->second;
  Facts f;
  f.plain = !s.source->as<Copy>() && !s.source->as<Sync>() && !s.source->as<Intrin>();
  if (const Alloc* a = s.source->as<Alloc>()) f.plain = a->buffer.space == "reg";
  if (s.source->as<For>()) variablesIn(s.expr, f.extents);
  for (const CodeStmt& inner : s.body) {
    const Facts& below = factsOf(inner);
    f.plain = f.plain && below.plain;
    f.extents.insert(f.extents.end(), below.extents.begin(), below.extents.end());
  }
  return facts_[&s] = std::move(f);
}

void Walk::outside(const std::vector<CodeStmt>& body) {
  for (const CodeStmt& s : body) {
    machine_.newEvaluation();
    if (s.source->as<BlockStmt>()) {
      outside(s.body);
    } else if (const For* f = s.source->as<For>()) {
      if (f->mode == LoopMode::Parallel) {
        std::vector<std::pair<int, int64_t>> at;
        addTiles(s, at);
        continue;
      }
      const int64_t n = machine_.integer(s.expr);
      for (int64_t i = 0; i < n; i++) {
        machine_.variables[s.slot].i = i;
        outside(s.body);
      }
    } else if (s.source->as<If>()) {
      if (machine_.integer(s.expr)) outside(s.body);
    } else if (const Sync* y = s.source->as<Sync>(); y && y->kind == Sync::Grid) {
      runList();
      out_.gridSyncs++;
      for (Core& c : cores_) c.time += target_.gridSyncSeconds;
    }
  }
}

void Walk::addTiles(const CodeStmt& s, std::vector<std::pair<int, int64_t>>& at) {
  machine_.newEvaluation();
  const int64_t n = machine_.integer(s.expr);
  const bool last = s.body.size() != 1 || !s.body[0].source->as<For>() ||
                    s.body[0].source->as<For>()->mode != LoopMode::Parallel;
  for (int64_t i = 0; i < n; i++) {
    machine_.variables[s.slot].i = i;
    at.emplace_back(s.slot, i);
    if (last)
      tiles_.push_back({&s, at});
    else
      addTiles(s.body[0], at);
    at.pop_back();
  }
}

void Walk::runList() {
  const double start = cores_[0].time;
  moved_ = 0;
  for (size_t i = 0; i < tiles_.size(); i++) {
    core_ = &cores_[i * cores_.size() / tiles_.size()];
    tile(i);
    for (auto& [name, e] : core_->engines) e.ends.clear();
  }
  tiles_.clear();
  const Level& main = target_.levels.back();
  const double rate = std::max(main.sharedBytesPerSecond, main.bytesPerSecond);
  double end = rate > 0 ? start + static_cast<double>(moved_) / rate : start;
  for (const Core& c : cores_) end = std::max(end, c.time);
  for (Core& c : cores_) c.time = end;
}

/// What stands behind a `sync last` is run by the core that gets there last, when all others have.
void Walk::tile(size_t i) {
  const Tile& t = tiles_[i];
  for (const auto& [slot, value] : t.variables) machine_.variables[slot].i = value;
  const std::span<const CodeStmt> body = t.body->body;
  const auto sync = std::ranges::find_if(body, [](const CodeStmt& s) {
    const Sync* y = s.source->as<Sync>();
    return y && y->kind == Sync::Last;
  });
  block({body.begin(), sync});
  if (sync == body.end()) return;
  if (!last_ || core_->time >= last_->time) last_ = core_;
  const bool more =
      i + 1 < tiles_.size() && tiles_[i + 1].body == t.body &&
      std::ranges::equal(std::span(t.variables).first(t.variables.size() - 1),
                         std::span(tiles_[i + 1].variables).first(t.variables.size() - 1));
  if (more) return;
  core_ = std::exchange(last_, nullptr);
  core_->time += target_.gridSyncSeconds;
  block({sync + 1, body.end()});
}

void Walk::block(std::span<const CodeStmt> body) {
  std::vector<std::pair<std::string, int64_t>> mine;
  for (const CodeStmt& s : body) {
    machine_.newEvaluation();
    if (s.source->as<Alloc>()) {
      const std::string& space = spaceOf(s.slot);
      const int64_t align = align_.count(space) ? align_[space] : 1;
      mine.emplace_back(space, (sizeOf(s.slot) + align - 1) / align * align);
      held_[space] += mine.back().second;
      out_.peaks[space] = std::max(out_.peaks[space], held_[space]);
    } else {
      statement(s);
    }
  }
  for (const auto& [space, n] : mine) held_[space] -= n;
}

void Walk::statement(const CodeStmt& s) {
  if (factsOf(s).plain) return vector(s);
  if (s.source->as<BlockStmt>()) return block(s.body);
  if (s.source->as<If>()) {
    if (machine_.integer(s.expr)) block(s.body);
    return;
  }
  if (s.source->as<For>()) {
    const int64_t n = machine_.integer(s.expr);
    for (int64_t i = 0; i < n; i++) {
      machine_.variables[s.slot].i = i;
      block(s.body);
    }
    return;
  }
  if (const Copy* c = s.source->as<Copy>()) return copy(s, *c);
  if (const Intrin* i = s.source->as<Intrin>()) return intrin(s, *i);
  if (const Sync* y = s.source->as<Sync>(); y && y->kind == Sync::Queue) wait(y->name, y->pending);
}

void Walk::occupy(const std::string& engine, const std::string& queue, double seconds,
                  double latency, const std::string& what) {
  Engine& e = core_->engines[engine];
  const double start = std::max(core_->time, e.free);
  e.free = start + seconds;
  e.busy += seconds;
  if (queue.empty())
    core_->time = e.free + latency;
  else
    core_->engines[queue].ends.push_back(e.free + latency);
  if (trace_ && core_ == &cores_[0] && trace_->size() < kMostEvents)
    trace_->push_back({engine, what, start, seconds});
}

void Walk::wait(const std::string& queue, int64_t pending) {
  std::deque<double>& ends = core_->engines[queue].ends;
  while (static_cast<int64_t>(ends.size()) > pending) {
    core_->time = std::max(core_->time, ends.front());
    ends.pop_front();
  }
}

void Walk::countMain(int buffer, bool written, double n) {
  const auto whole = static_cast<int64_t>(std::llround(n));
  moved_ += whole;
  (written ? out_.bytesWritten : out_.bytesRead) += whole;
  if (!written && weights_.count(code_.buffers[buffer].name)) out_.weightBytes += whole;
}

void Simulated::add(const Simulated& s) {
  launches += s.launches;
  gridSyncs += s.gridSyncs;
  bytesRead += s.bytesRead;
  bytesWritten += s.bytesWritten;
  weightBytes += s.weightBytes;
  scratchPeak = std::max(scratchPeak, s.scratchPeak);
  for (const auto& [level, n] : s.peaks) peaks[level] = std::max(peaks[level], n);
  cycles += s.cycles;
  for (const auto& [engine, n] : s.busy) busy[engine] += n;
}

Simulated countKernel(const KernelModule& module, const Kernel& kernel, const Target& target,
                      const std::set<std::string>& weights, std::vector<TraceEvent>* trace) {
  return Walk(module, kernel, target, weights, trace).run();
}

std::string chromeTrace(const std::vector<TraceEvent>& events, const Target& target) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const TraceEvent& e : events)
    list.push_back({{"name", e.what},
                    {"cat", "simulated"},
                    {"ph", "X"},
                    {"pid", target.name + " (simulated)"},
                    {"tid", e.engine},
                    {"ts", e.start * 1e6},
                    {"dur", e.seconds * 1e6}});
  return Json{{"traceEvents", list}, {"displayTimeUnit", "ns"}}.dump();
}

}  // namespace tektite
