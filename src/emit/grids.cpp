#include "emit/grids.h"

#include <algorithm>

namespace tektite {
namespace {

Ranges rangesOf(const std::vector<Dim>& dims) {
  Ranges ranges;
  for (const Dim& d : dims) ranges[d.name] = {d.low, d.high};
  return ranges;
}

int64_t product(const std::vector<Expr>& extents, const Ranges& ranges) {
  int64_t n = 1;
  for (const Expr& e : extents) n *= std::max<int64_t>(0, boundsOf(e, ranges).high);
  return n;
}

/// Adds up tile lists between the `sync grid`s, and the counters of their last tiles.
struct Needs {
  KernelNeeds out;
  Ranges ranges;
  std::optional<int64_t> list = 0;

  void end() {
    out.tiles = out.tiles < 0 || !list ? -1 : std::max(out.tiles, *list);
    list = 0;
  }
  void grid(const Grid& g) {
    const auto tiles = asInteger(g.tiles());
    list = tiles && list ? std::optional(*list + *tiles) : std::nullopt;
    if (!lastIn(g.body)) return;
    std::vector<Expr> rows;
    for (size_t i = 0; i + 1 < g.loops.size(); i++) rows.push_back(g.loops[i]->extent);
    out.counters += std::max<int64_t>(1, product(rows, ranges));
  }
  void walk(const Block& block) {
    for (const Stmt& s : block) {
      const For* f = s.as<For>();
      if (f && f->mode == LoopMode::Parallel) {
        grid(gridOf(*f));
      } else if (f && hasGrid(f->body)) {
        end();
        ranges[f->var] = {0, std::max<int64_t>(0, boundsOf(f->extent, ranges).high - 1)};
        walk(f->body);
        end();
      } else if (const If* i = s.as<If>(); i && hasGrid(i->body)) {
        end();
        walk(i->body);
        end();
      } else if (const BlockStmt* b = s.as<BlockStmt>()) {
        walk(b->body);
      } else if (const Sync* y = s.as<Sync>(); y && y->kind == Sync::Grid) {
        end();
      } else if (!s.as<Alloc>()) {
        list = list ? std::optional(*list + 1) : std::nullopt;
      }
    }
  }
};

}  // namespace

Expr Grid::tiles() const {
  Expr n = 1;
  for (const For* f : loops) n = n * max(f->extent, Expr(0));
  return n;
}

Grid gridOf(const For& outermost) {
  Grid g{{&outermost}, {}, {}};
  const For* f = &outermost;
  while (f->body.size() == 1) {
    const For* inner = f->body[0].as<For>();
    if (!inner || inner->mode != LoopMode::Parallel) break;
    const auto names = freeVars(inner->extent);
    const bool depends = std::any_of(g.loops.begin(), g.loops.end(), [&](const For* l) {
      return std::find(names.begin(), names.end(), l->var) != names.end();
    });
    if (depends) break;
    g.loops.push_back(f = inner);
  }
  g.body = f->body;
  return g;
}

bool hasGrid(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
    if (const For* f = s.as<For>()) return f->mode == LoopMode::Parallel || hasGrid(f->body);
    if (const If* i = s.as<If>()) return hasGrid(i->body);
    if (const BlockStmt* b = s.as<BlockStmt>()) return hasGrid(b->body);
    const Sync* y = s.as<Sync>();
    return y && y->kind == Sync::Grid;
  });
}

void forEachRun(const Block& block, const std::function<void(const std::vector<Grid>&)>& together,
                const std::function<void(const Stmt&)>& around) {
  std::vector<Grid> grids;
  const auto flush = [&] {
    if (!grids.empty()) together(grids);
    grids.clear();
  };
  for (const Stmt& s : block) {
    if (const Alloc* a = s.as<Alloc>(); a && a->buffer.space == "main") continue;
    const For* f = s.as<For>();
    if (f && f->mode == LoopMode::Parallel) {
      grids.push_back(gridOf(*f));
      grids.back().comment = s.comment;
    } else if (!hasGrid({s})) {
      if (grids.empty() || !grids.back().loops.empty()) grids.push_back({});
      grids.back().body.push_back(s);
    } else {
      flush();
      around(s);
    }
  }
  flush();
}

const Sync* lastIn(const Block& body) {
  for (const Stmt& s : body)
    if (const Sync* y = s.as<Sync>(); y && y->kind == Sync::Last) return y;
  return nullptr;
}

namespace {
void collectMains(const Block& block, std::vector<const Buffer*>& out) {
  for (const Stmt& s : block) {
    if (const Alloc* a = s.as<Alloc>(); a && a->buffer.space == "main") out.push_back(&a->buffer);
    if (const For* f = s.as<For>()) collectMains(f->body, out);
    if (const If* i = s.as<If>()) collectMains(i->body, out);
    if (const BlockStmt* b = s.as<BlockStmt>()) collectMains(b->body, out);
  }
}
}  // namespace

std::vector<const Buffer*> mainAllocsOf(const Block& block) {
  std::vector<const Buffer*> out;
  collectMains(block, out);
  return out;
}

int teamOf(const Block& block, const Target& target) {
  int threads = 0;
  for (const Stmt& s : block) {
    if (const For* f = s.as<For>()) {
      const int extent = static_cast<int>(asInteger(f->extent).value_or(0));
      threads = std::max(threads, f->mode == LoopMode::Warp     ? extent * target.warp
                                  : f->mode == LoopMode::Thread ? extent
                                                                : teamOf(f->body, target));
    }
    if (const If* i = s.as<If>()) threads = std::max(threads, teamOf(i->body, target));
    if (const BlockStmt* b = s.as<BlockStmt>())
      threads = std::max(threads, teamOf(b->body, target));
  }
  return threads;
}

KernelNeeds needsOf(const Kernel& kernel) {
  Needs needs;
  needs.ranges = rangesOf(kernel.dims);
  needs.walk(kernel.body);
  needs.end();
  for (const Buffer* b : mainAllocsOf(kernel.body))
    needs.out.mainAllocs.push_back(bytes(b->type) * product(b->shape, needs.ranges));
  return needs.out;
}

}  // namespace tektite
