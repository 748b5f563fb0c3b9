#include "backends/npu/simulate.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "ir/kernel_machine.h"
#include "support/check.h"

namespace tektite {
namespace {

using namespace code;

constexpr size_t kMostEvents = 100000;

/// What is known of a statement before a run.
struct Facts {
  bool plain = true;         // loops, guards and stores only: vector instructions
  std::vector<int> extents;  // variables that extents inside depend on
};

class Count {
 public:
  Count(const KernelModule& module, const Kernel& kernel, const Target& target,
        const std::set<std::string>& weights, std::vector<TraceEvent>* trace)
      : code_(compile(module, kernel)),
        machine_(code_, options_, "kernel " + kernel.name),
        target_(target),
        weights_(weights),
        trace_(trace),
        cores_(static_cast<size_t>(std::max(1, target.cores))) {
    for (const Level& l : target.levels) align_[l.name] = std::max<int64_t>(1, l.align);
    for (const auto& [name, place] : spacesOf(kernel)) space_[name] = place;
    for (const Param& p : kernel.params) space_[p.buffer.name] = "main";
  }

  Simulated run() {
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

 private:
  struct Engine {
    double free = 0, busy = 0;
    std::deque<double> ends;
  };
  struct Core {
    double time = 0;
    std::map<std::string, Engine> engines;
  };
  struct Tile {
    const CodeStmt* body;
    std::vector<std::pair<int, int64_t>> variables;
  };

  KernelEvalOptions options_;
  Code code_;
  Machine machine_;
  const Target& target_;
  const std::set<std::string>& weights_;
  std::vector<TraceEvent>* trace_;
  std::vector<Core> cores_;
  Core* core_ = nullptr;
  std::vector<Tile> tiles_;
  Simulated out_;
  std::map<std::string, std::string> space_;
  std::map<std::string, int64_t> align_, held_;
  std::unordered_map<const CodeStmt*, Facts> facts_;
  std::unordered_map<const CodeStmt*, double> slots_;
  int64_t moved_ = 0;  // bytes of main memory in this list

  // ---- what a kernel declares

  static std::map<std::string, std::string> spacesOf(const Kernel& k) {
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
  const std::string& spaceOf(int buffer) const { return space_.at(code_.buffers[buffer].name); }
  int64_t sizeOf(int buffer) {
    const CodeBuffer& b = code_.buffers[buffer];
    int64_t n = bytes(b.type);
    for (int e : b.shape) n *= std::max<int64_t>(0, machine_.integer(e));
    return n;
  }
  void variablesIn(int node, std::vector<int>& out) const {
    if (node < 0) return;
    const Node& n = code_.nodes[node];
    if (n.kind == Node::Var) out.push_back(n.slot);
    for (int a : n.args) variablesIn(a, out);
  }
  const Facts& factsOf(const CodeStmt& s) {
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

  // ---- tiles

  void outside(const std::vector<CodeStmt>& body) {
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
  void addTiles(const CodeStmt& s, std::vector<std::pair<int, int64_t>>& at) {
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
  void runList() {
    const double start = cores_[0].time;
    moved_ = 0;
    for (size_t i = 0; i < tiles_.size(); i++) {
      core_ = &cores_[i * cores_.size() / tiles_.size()];
      for (const auto& [slot, value] : tiles_[i].variables) machine_.variables[slot].i = value;
      block(tiles_[i].body->body);
      for (auto& [name, e] : core_->engines) e.ends.clear();
    }
    tiles_.clear();
    const Level& main = target_.levels.back();
    const double rate = std::max(main.sharedBytesPerSecond, main.bytesPerSecond);
    double end = rate > 0 ? start + static_cast<double>(moved_) / rate : start;
    for (const Core& c : cores_) end = std::max(end, c.time);
    for (Core& c : cores_) c.time = end;
  }

  // ---- statements

  void block(const std::vector<CodeStmt>& body) {
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
  void statement(const CodeStmt& s) {
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
    if (const Sync* y = s.source->as<Sync>(); y && y->kind == Sync::Queue)
      wait(y->name, y->pending);
  }

  // ---- engines

  void occupy(const std::string& engine, const std::string& queue, double seconds, double latency,
              const std::string& what) {
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
  void wait(const std::string& queue, int64_t pending) {
    std::deque<double>& ends = core_->engines[queue].ends;
    while (static_cast<int64_t>(ends.size()) > pending) {
      core_->time = std::max(core_->time, ends.front());
      ends.pop_front();
    }
  }
  void countMain(int buffer, bool written, double n) {
    const auto whole = static_cast<int64_t>(std::llround(n));
    moved_ += whole;
    (written ? out_.bytesWritten : out_.bytesRead) += whole;
    if (!written && weights_.count(code_.buffers[buffer].name)) out_.weightBytes += whole;
  }

  void copy(const CodeStmt& s, const Copy& c) {
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
  /// Elements that are moved: those that are filled come from nowhere.
  double elements(const CodeStmt& s) {
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

  void intrin(const CodeStmt& s, const Intrin& i) {
    const CodeIntrin& def = *s.intrin;
    std::map<std::string, double> dims;
    for (size_t k = 0; k < s.dims.size(); k++)
      dims[def.source->dims[k].name] = static_cast<double>(machine_.integer(s.dims[k]));
    const MatrixUnit& unit = target_.matrix;
    const std::string engine = i.queue.empty() ? "vector" : i.queue;
    double cycles = target_.vectorStartCycles, hertz = target_.hertz;
    if (i.queue == unit.engine && dims.count("m") && dims.count("n") && dims.count("k")) {
      const int element = bytes(def.source->params.back().buffer.type);
      cycles = unit.startCycles + std::ceil(dims["m"] / unit.rows) *
                                      std::ceil(dims["n"] / unit.columns) *
                                      std::ceil(dims["k"] * element / unit.depthBytes) *
                                      (element >= 4 ? unit.wide : 1);
      if (unit.hertz > 0) hertz = unit.hertz;
    }
    occupy(engine, i.queue, cycles / hertz, 0, i.name);
  }

  // ---- vector instructions

  void vector(const CodeStmt& s) {
    double cycles = 0;
    nest(s, 1, cycles);
    if (cycles > 0) occupy("vector", "", cycles / target_.hertz, 0, "vector");
  }
  void nest(const CodeStmt& s, double times, double& cycles) {
    if (s.source->as<For>()) {
      machine_.newEvaluation();
      const int64_t n = std::max<int64_t>(0, machine_.integer(s.expr));
      const auto& used = factsOf(s).extents;
      bool varies = false;
      for (const CodeStmt& inner : s.body) {
        const auto& below = factsOf(inner).extents;
        varies = varies || std::ranges::count(below, s.slot) > 0;
      }
      (void)used;
      if (n == 0) return;
      for (int64_t i = 0; i < (varies ? n : 1); i++) {
        machine_.variables[s.slot].i = i;
        for (const CodeStmt& inner : s.body)
          nest(inner, varies ? times : times * static_cast<double>(n), cycles);
      }
      return;
    }
    if (s.source->as<Alloc>()) return;
    if (const Store* t = s.source->as<Store>()) return store(s, *t, times, cycles);
    for (const CodeStmt& inner : s.body) nest(inner, times, cycles);
  }
  void store(const CodeStmt& s, const Store& t, double times, double& cycles) {
    auto [it, fresh] = slots_.try_emplace(&s, 0);
    if (fresh) {
      for (const Expr& e : t.values) it->second += slotsOf(e);
      if (!t.combine.empty()) it->second += 1;
    }
    const double slots = std::max(1.0, it->second);
    if (byUnit(s, t)) {  // its own engine stores what it has summed up
      const int to = s.refs[0].buffer;
      const double n = times * bytes(code_.buffers[to].type);
      countMain(to, true, n);
      const MemoryPath* path = target_.path(target_.matrix.result, "main");
      return occupy(path->engine, "", (n + path->halfBytes) / path->bytesPerSecond,
                    target_.latencySeconds, code_.buffers[to].name);
    }
    const int element = bytes(code_.buffers[s.refs[0].buffer].type);
    cycles += slots * target_.vectorStartCycles +
              times * slots * element / target_.vectorBytes / target_.slotsPerCycle;
    for (const CodeRef& r : s.refs)
      if (spaceOf(r.buffer) == "main") direct(r.buffer, true, times);
    for (const Expr& e : t.values)
      for (const Expr& l : loadsOf(e)) {
        const auto at = space_.find(l.as<Load>()->buffer);
        if (at == space_.end() || at->second != "main") continue;
        for (size_t b = 0; b < code_.buffers.size(); b++)
          if (code_.buffers[b].name == l.as<Load>()->buffer) {
            direct(static_cast<int>(b), false, times);
            break;
          }
      }
  }
  bool byUnit(const CodeStmt& s, const Store& t) const {
    if (s.refs.size() != 1 || spaceOf(s.refs[0].buffer) != "main" ||
        !target_.path(target_.matrix.result, "main"))
      return false;
    for (const Expr& l : loadsOf(t.values[0])) {
      const auto at = space_.find(l.as<Load>()->buffer);
      if (at == space_.end() || at->second != target_.matrix.result) return false;
    }
    return !loadsOf(t.values[0]).empty();
  }
  /// Elements of main memory that are moved one by one.
  void direct(int buffer, bool written, double times) {
    const double n = times * bytes(code_.buffers[buffer].type);
    countMain(buffer, written, n);
    const MemoryPath* path =
        written ? target_.path(target_.scratch, "main") : target_.path("main", target_.scratch);
    occupy(path->engine, "", 8 * n / path->bytesPerSecond, target_.latencySeconds,
           code_.buffers[buffer].name);
  }
};

}  // namespace

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
  return Count(module, kernel, target, weights, trace).run();
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
