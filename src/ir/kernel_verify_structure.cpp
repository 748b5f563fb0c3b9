#include "ir/kernel_rules.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

bool isMode(const Stmt& s, LoopMode mode) {
  const For* f = s.as<For>();
  return f && f->mode == mode;
}

/// The innermost loop of the grid that begins with `loop`.
const For& tileLoop(const For& loop) {
  return loop.body.size() == 1 && isMode(loop.body[0], LoopMode::Parallel)
             ? tileLoop(*loop.body[0].as<For>())
             : loop;
}

/// The grid around a statement: its first loop; null outside.
const For* gridOf(const Path& p) {
  for (const For* f : p.loops())
    if (f->mode == LoopMode::Parallel) return f;
  return nullptr;
}

bool hasThreads(const Block& b) {
  for (const Stmt& s : b) {
    if (isMode(s, LoopMode::Warp) || isMode(s, LoopMode::Thread)) return true;
    if (const Block* body = bodyOf(s); body && hasThreads(*body)) return true;
  }
  return false;
}

bool readsMemory(const Stmt& s) {
  bool found = false;
  eachExpr(s, [&](const Expr& e) { found |= !loadsOf(e).empty(); });
  return found;
}

void outsideGrids(const Subject& s, const Stmt& at) {
  const auto refuse = [&] {
    s.report(9, at,
             "only allocations in main, serial loops, ifs and sync grid stand outside the grids");
  };
  std::visit(overloaded{[](const BlockStmt&) {},
                        [&](const For& f) {
                          if (f.mode != LoopMode::Serial && f.mode != LoopMode::Parallel)
                            refuse();
                          else if (readsMemory(at))
                            s.report(9, at, "an extent outside the grids reads memory");
                        },
                        [&](const If&) {
                          if (readsMemory(at))
                            s.report(9, at, "a condition outside the grids reads memory");
                        },
                        [](const Alloc&) {}, [&](const Store&) { refuse(); },
                        [&](const Copy&) { refuse(); },
                        [&](const Sync& y) {
                          if (y.kind != Sync::Grid) refuse();
                        },
                        [&](const Intrin&) { refuse(); }},
             at.kind);
}

void inVector(const Subject& s, const Stmt& at) {
  const auto refuse = [&](const char* what) {
    s.report(9, at, fmt::format("{} in a vector loop", what));
  };
  std::visit(
      overloaded{[](const BlockStmt&) {}, [](const If&) {}, [](const Alloc&) {},
                 [](const Store&) {},
                 [&](const For& f) {
                   if (f.mode == LoopMode::Vector || f.mode == LoopMode::Warp ||
                       f.mode == LoopMode::Thread)
                     refuse("such a loop");
                 },
                 [&](const Copy&) { refuse("a copy"); }, [&](const Sync&) { refuse("a sync"); },
                 [&](const Intrin&) { refuse("an instruction"); }},
      at.kind);
}

void inTeam(const Subject& s, const Stmt& at, const Path& p) {
  const bool thread = p.inside(LoopMode::Thread), warp = p.inside(LoopMode::Warp);
  if (const For* f = at.as<For>()) {
    if (f->mode == LoopMode::Thread && thread) s.report(9, at, "a thread loop in a thread loop");
    if (f->mode == LoopMode::Warp && (thread || warp))
      s.report(9, at, "a warp loop in a warp or thread loop");
    if (!thread && !warp && (f->mode == LoopMode::Parallel || f->mode == LoopMode::Vector) &&
        gridOf(p))
      s.report(9, at,
               fmt::format("a {} loop in a team's tile stands inside its threads", name(f->mode)));
  }
  if (!thread && (at.as<Store>() || at.as<Copy>()))
    s.report(9, at, "in a team's tile stores and copies stand in thread loops");
  if (!thread && !warp && at.as<Intrin>())
    s.report(9, at, "in a team's tile instructions stand in warp or thread loops");
  if ((thread || warp) && at.as<Sync>()) s.report(9, at, "a sync in a warp or thread loop");
}

/// All nests of a tile have the same number of threads.
void teamSizes(const Subject& s, const For& grid) {
  const int64_t warp = s.options.target && s.options.target->warp > 1 ? s.options.target->warp : 32;
  int64_t team = 0;
  Path path;
  walk(grid.body, path,
       {[&](const Stmt& at, Path& p) {
          const For* f = at.as<For>();
          if (!f || (f->mode != LoopMode::Warp && f->mode != LoopMode::Thread)) return;
          const int64_t extent = asInteger(f->extent).value_or(0);
          if (p.inside(LoopMode::Warp)) {
            if (extent != warp)
              s.report(9, at, fmt::format("a warp has {} threads, found {}", warp, extent));
            return;
          }
          const int64_t here = f->mode == LoopMode::Warp ? extent * warp : extent;
          if (team && here != team)
            s.report(9, at, fmt::format("a nest of {} threads in a team of {}", here, team));
          team = here;
        },
        nullptr});
}

void checkSync(const Subject& s, const Stmt& at, const Sync& y, const Path& p) {
  if (y.kind == Sync::Grid) return s.report(9, at, "stands inside a grid");
  if (y.kind != Sync::Last) return;
  const For& loop = tileLoop(*gridOf(p));
  int count = 0;
  for (const Stmt& x : loop.body)
    if (const Sync* other = x.as<Sync>()) count += other->kind == Sync::Last;
  if (p.around.back()->as<For>() != &loop || y.name != loop.var)
    s.report(
        9, at,
        fmt::format("stands elsewhere than directly in the grid's innermost loop '{}'", loop.var));
  else if (count > 1)
    s.report(9, at, "a second sync last");
}

void inIntrin(const Subject& s, const Stmt& at) {
  const For* f = at.as<For>();
  if (at.as<Sync>() || at.as<Copy>() ||
      (f && (f->mode == LoopMode::Warp || f->mode == LoopMode::Thread)))
    s.report(9, at, "an instruction's meaning has loops, ifs, allocations and stores");
}

}  // namespace

void checkStructure(const Subject& s) {
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path& p) {
          if (s.isIntrin) return inIntrin(s, at);
          const For* grid = gridOf(p);
          if (!grid) {
            outsideGrids(s, at);
            if (isMode(at, LoopMode::Parallel)) teamSizes(s, *at.as<For>());
            return;
          }
          if (const Sync* y = at.as<Sync>()) checkSync(s, at, *y, p);
          if (p.inside(LoopMode::Vector)) inVector(s, at);
          const bool ofGrid = isMode(at, LoopMode::Parallel) && &tileLoop(*grid) != grid &&
                              !p.around.back()->as<If>() && p.around.back()->as<For>() &&
                              &tileLoop(*p.around.back()->as<For>()) == &tileLoop(*grid) &&
                              p.around.back()->as<For>() != &tileLoop(*grid);
          if (!ofGrid && hasThreads(grid->body)) inTeam(s, at, p);
        },
        nullptr});
}

}  // namespace tektite
