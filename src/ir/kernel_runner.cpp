#include "ir/kernel_runner.h"

#include <algorithm>

#include "support/overloaded.h"

namespace tektite::code {

void describe(Machine& m, const CodeBuffer& b, View& v) {
  m.newEvaluation();
  v.rank = static_cast<int>(b.shape.size());
  TEKTITE_CHECK(v.rank <= kMaxRank, "{}: rank {}", b.name, v.rank);
  for (int d = 0; d < v.rank; d++) v.shape[d] = std::max<int64_t>(0, m.integer(b.shape[d]));
  int64_t stride = 1;
  for (int d = v.rank - 1; d >= 0; d--) {
    v.strides[d] = b.strides.empty() ? stride : m.integer(b.strides[d]);
    stride *= v.shape[d];
  }
}

int64_t span(const View& v) {
  int64_t last = 0;
  for (int d = 0; d < v.rank; d++) {
    if (v.shape[d] == 0) return 0;
    last += (v.shape[d] - 1) * v.strides[d];
  }
  return last + 1;
}

// ---- lists of tiles

void Runner::kernel(const std::vector<CodeStmt>& body) {
  m_.counters.launches = 1;
  outside(body);
  runList();
  release(body);
}

void Runner::outside(const std::vector<CodeStmt>& body) {
  for (const CodeStmt& s : body) {
    m_.statement = s.source;
    m_.newEvaluation();
    if (s.source->as<BlockStmt>()) {
      outside(s.body);
      release(s.body);
    } else if (const For* f = s.source->as<For>()) {
      if (f->mode == LoopMode::Parallel) {
        addGrid(s);
        continue;
      }
      if (f->mode != LoopMode::Serial)
        m_.fault(9, fmt::format("a {} loop outside the grids", name(f->mode)));
      const int64_t extent = m_.integer(s.expr);
      m_.live.push_back(s.slot);
      for (int64_t i = 0; i < extent; i++) {
        m_.variables[s.slot].i = i;
        outside(s.body);
        release(s.body);
      }
      m_.live.pop_back();
    } else if (s.source->as<If>()) {
      if (!m_.integer(s.expr)) continue;
      outside(s.body);
      release(s.body);
    } else if (s.source->as<Alloc>()) {
      alloc(s, nullptr);
    } else if (const Sync* y = s.source->as<Sync>(); y && y->kind == Sync::Grid) {
      runList();
      m_.counters.launches++;
    } else {
      m_.fault(9,
               "only allocations in main, serial loops, ifs and sync grid stand outside the grids");
    }
  }
}

void Runner::addGrid(const CodeStmt& s) {
  Grid g;
  for (const CodeStmt* l = &s;;) {
    g.loops.push_back(l);
    if (l->body.size() != 1) break;
    const For* inner = l->body[0].source->as<For>();
    if (!inner || inner->mode != LoopMode::Parallel) break;
    l = &l->body[0];
  }
  for (int slot : m_.live) g.around.emplace_back(slot, m_.variables[slot]);
  grids_.push_back(std::move(g));
  std::vector<int64_t> coordinates;
  addTiles(0, coordinates);
}

void Runner::addTiles(size_t depth, std::vector<int64_t>& coordinates) {
  const Grid& g = grids_.back();
  m_.newEvaluation();
  const int64_t extent = m_.integer(g.loops[depth]->expr);
  const bool last = depth + 1 == g.loops.size();
  if (last) left_.push_back(extent);
  for (int64_t i = 0; i < extent; i++) {
    m_.variables[g.loops[depth]->slot].i = i;
    coordinates.push_back(i);
    if (last)
      tiles_.push_back({static_cast<int>(grids_.size()) - 1, static_cast<int64_t>(left_.size()) - 1,
                        coordinates});
    else
      addTiles(depth + 1, coordinates);
    coordinates.pop_back();
  }
}

void Runner::runList() {
  const std::vector<int> live = m_.live;
  std::vector<std::pair<int, Value>> around;
  for (int slot : live) around.emplace_back(slot, m_.variables[slot]);
  m_.races.beginList();
  for (int64_t i : order(static_cast<int64_t>(tiles_.size()))) runTile(tiles_[i]);
  m_.counters.tiles += static_cast<int64_t>(tiles_.size());
  m_.races.beginList();
  m_.live = live;
  for (auto [slot, value] : around) m_.variables[slot] = value;
  grids_.clear();
  tiles_.clear();
  left_.clear();
}

void Runner::runTile(const Tile& tile) {
  const Grid& g = grids_[tile.grid];
  m_.live.clear();
  for (auto [slot, value] : g.around) {
    m_.variables[slot] = value;
    m_.live.push_back(slot);
  }
  for (size_t d = 0; d < g.loops.size(); d++) {
    m_.variables[g.loops[d]->slot].i = tile.coordinates[d];
    m_.live.push_back(g.loops[d]->slot);
  }
  m_.races.beginTile(tile.group);
  const std::vector<CodeStmt>& body = g.loops.back()->body;
  for (const CodeStmt& s : body) {
    m_.statement = s.source;
    const Sync* y = s.source->as<Sync>();
    if (!y || y->kind != Sync::Last) {
      statement(s, nullptr);
      continue;
    }
    if (m_.code.variables[g.loops.back()->slot] != y->name)
      m_.fault(9, "sync last names another loop than the innermost of its grid");
    m_.checkQueuesEmpty();
    if (--left_[tile.group] > 0) return release(body);
    m_.races.goOnAlone();
    m_.races.syncThreads();
  }
  m_.checkQueuesEmpty();
  release(body);
}

// ---- blocks and loops

void Runner::release(const std::vector<CodeStmt>& body) {
  for (const CodeStmt& s : body) {
    if (!s.source->as<Alloc>()) continue;
    m_.statement = s.source;
    const View& v = m_.views[s.slot];
    if (v.memory && v.memory->inFlight)
      m_.fault(11, fmt::format("'{}' ends while an operation in flight uses it",
                               m_.code.buffers[s.slot].name));
    if (v.memory && v.memory->main && !tiles_.empty())
      m_.fault(9,
               fmt::format("'{}' ends before the tiles that use it", m_.code.buffers[s.slot].name));
  }
}

void Runner::block(const std::vector<CodeStmt>& body, const Lanes* lanes) {
  bool allocs = false;
  for (const CodeStmt& s : body) {
    m_.statement = s.source;
    statement(s, lanes);
    allocs |= s.source->as<Alloc>() != nullptr;
  }
  if (allocs) release(body);
}

void Runner::statement(const CodeStmt& s, const Lanes* lanes) {
  std::visit(overloaded{[&](const BlockStmt&) { block(s.body, lanes); },
                        [&](const For& f) { loop(s, f, lanes); },
                        [&](const If&) {
                          if (lanes) return masked(s, *lanes);
                          m_.newEvaluation();
                          if (m_.integer(s.expr)) block(s.body, nullptr);
                        },
                        [&](const Alloc&) { alloc(s, lanes); },
                        [&](const Store& t) { store(s, t, lanes); },
                        [&](const Copy& c) {
                          if (lanes) m_.fault(9, "a copy in a vector loop");
                          copy(s, c);
                        },
                        [&](const Sync& y) {
                          if (lanes) m_.fault(9, "a sync in a vector loop");
                          sync(y);
                        },
                        [&](const Intrin& i) {
                          if (lanes) m_.fault(9, "an instruction in a vector loop");
                          intrin(s, i);
                        }},
             s.source->kind);
}

int64_t Runner::extentOf(const CodeStmt& s, const Lanes* lanes) {
  m_.newEvaluation();
  if (!lanes) return m_.integer(s.expr);
  int64_t extent = -1;
  eachLane(*lanes, [&](int64_t) {
    const int64_t here = std::max<int64_t>(0, m_.integer(s.expr));
    if (extent >= 0 && extent != here)
      m_.fault(7, fmt::format("the extent is {} in one lane, {} in another", extent, here));
    extent = here;
  });
  return extent;
}

std::vector<int64_t> Runner::order(int64_t n) {
  std::vector<int64_t> out(std::max<int64_t>(0, n));
  for (int64_t i = 0; i < n; i++) out[i] = i;
  if (m_.options.order == KernelEvalOptions::Reverse) std::reverse(out.begin(), out.end());
  if (m_.options.order == KernelEvalOptions::Shuffled)
    for (int64_t i = n; i > 1; i--)
      std::swap(out[i - 1], out[m_.random() % static_cast<uint64_t>(i)]);
  return out;
}

void Runner::loop(const CodeStmt& s, const For& f, const Lanes* lanes) {
  const int64_t extent = extentOf(s, lanes);
  if (extent <= 0) return;
  m_.live.push_back(s.slot);
  if (lanes && f.mode >= LoopMode::Vector && f.mode != LoopMode::Unroll)
    m_.fault(9, fmt::format("a {} loop in a vector loop", name(f.mode)));
  switch (f.mode) {
    case LoopMode::Serial:
    case LoopMode::Unroll: iterate(s, extent, lanes); break;
    case LoopMode::Parallel: parallel(s, extent, lanes); break;
    case LoopMode::Vector: vector(s, extent); break;
    case LoopMode::Warp: warps(s, extent); break;
    case LoopMode::Thread: threads(s, extent); break;
  }
  m_.live.pop_back();
}

void Runner::iterate(const CodeStmt& s, int64_t extent, const Lanes* lanes) {
  for (int64_t i = 0; i < extent; i++) {
    m_.variables[s.slot].i = i;
    block(s.body, lanes);
  }
}

void Runner::parallel(const CodeStmt& s, int64_t extent, const Lanes* lanes) {
  m_.races.beginLoop();
  for (int64_t i : order(extent)) {
    m_.races.beginIteration();
    m_.variables[s.slot].i = i;
    block(s.body, lanes);
  }
  m_.races.endLoop();
}

void Runner::vector(const CodeStmt& s, int64_t extent) {
  Lanes lanes{s.slot, extent, std::vector<int64_t>(extent)};
  for (int64_t i = 0; i < extent; i++) lanes.on[i] = i;
  block(s.body, &lanes);
}

void Runner::warps(const CodeStmt& s, int64_t extent) {
  if (warp_ >= 0) m_.fault(9, "a warp loop in a warp loop");
  for (int64_t w : order(extent)) {
    m_.variables[s.slot].i = w;
    warp_ = static_cast<int>(w);
    m_.races.beginThread({warp_, -1});
    block(s.body, nullptr);
    m_.races.endThread();
  }
  warp_ = -1;
}

void Runner::threads(const CodeStmt& s, int64_t extent) {
  const bool alone = warp_ < 0;
  if (m_.races.inThread() && (alone || m_.races.thread().lane >= 0))
    m_.fault(9, "a thread loop in a thread loop");
  for (int64_t t : order(extent)) {
    m_.variables[s.slot].i = t;
    m_.races.beginThread(alone ? ThreadId{int(t) / m_.options.warp, int(t) % m_.options.warp}
                               : ThreadId{warp_, int(t)});
    block(s.body, nullptr);
    m_.races.endThread();
  }
  if (!alone) m_.races.beginThread({warp_, -1});
}

void Runner::masked(const CodeStmt& s, const Lanes& lanes) {
  Lanes on{lanes.slot, lanes.total, {}};
  eachLane(lanes, [&](int64_t l) {
    if (m_.integer(s.expr)) on.on.push_back(l);
  });
  if (!on.on.empty()) block(s.body, &on);
}

void Runner::alloc(const CodeStmt& s, const Lanes* lanes) {
  const CodeBuffer& b = m_.code.buffers[s.slot];
  View& v = m_.views[s.slot];
  if (!v.memory) {
    storages_.push_back(std::make_unique<Storage>());
    Storage& fresh = *storages_.back();
    fresh.registers = b.registers;
    fresh.main = b.main;
    fresh.type = b.type;
    fresh.rounds = m_.options.roundEach && isFloat(b.type);
    v.memory = &fresh;
  }
  describe(m_, b, v);
  Storage& memory = *v.memory;
  v.laneStride = lanes ? span(v) : 0;
  const size_t size = static_cast<size_t>(span(v) * (lanes ? lanes->total : 1));
  if (memory.values.size() < size) {
    memory.values.resize(size);
    memory.shadow.resize(size);
    memory.address = nextAddress_;
    nextAddress_ += (size * bytes(b.type) + 127) / 64 * 64;
  }
  memory.birth = m_.races.tick();
}

void Runner::sync(const Sync& s) {
  if (m_.races.inThread()) m_.fault(9, "a sync in a warp or thread loop");
  switch (s.kind) {
    case Sync::Shared: return m_.races.syncThreads();
    case Sync::Queue: return m_.waitFor(s.name, s.pending);
    case Sync::Grid:
    case Sync::Last: m_.fault(9, "stands where not all tiles can wait");
  }
}

}  // namespace tektite::code
