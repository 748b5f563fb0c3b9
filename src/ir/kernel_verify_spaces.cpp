#include "ir/kernel_rules.h"

namespace tektite {
namespace {

struct Held {
  size_t depth;
  std::string space;
  int64_t bytes;
};

/// Threads of the teams of the grid around.
int64_t teamOf(const Subject& s, const Path& p) {
  const int64_t warp = s.options.target->warp;
  int64_t team = 1;
  for (const Stmt* around : p.around) {
    const For* f = around->as<For>();
    if (!f || f->mode != LoopMode::Parallel) continue;
    Path path;
    walk(f->body, path,
         {[&](const Stmt& at, Path& q) {
            const For* t = at.as<For>();
            if (!t || q.inside(LoopMode::Warp)) return;
            if (t->mode == LoopMode::Warp)
              team = std::max(team, asInteger(t->extent).value_or(1) * warp);
            if (t->mode == LoopMode::Thread)
              team = std::max(team, asInteger(t->extent).value_or(1));
          },
          nullptr});
    break;
  }
  return team;
}

/// Bytes of an allocation at the largest dims: of one core; registers of one thread.
int64_t bytesOf(const Subject& s, const Buffer& b, const Ranges& dims, const Path& p) {
  int64_t count = 1;
  for (const Expr& e : b.shape) count *= std::max<int64_t>(0, boundsOf(e, dims).high);
  if (p.inside(LoopMode::Vector))
    for (const For* f : p.loops())
      if (f->mode == LoopMode::Vector) count *= asInteger(f->extent).value_or(1);
  int64_t total = count * bytes(b.type);
  const bool registers = b.space == "reg" || b.space == "frag", thread = p.inside(LoopMode::Thread),
             warp = p.inside(LoopMode::Warp);
  const int64_t team = teamOf(s, p);
  if (registers && !thread)
    return (total + team - 1) / team * (warp && team > 1 ? team / s.options.target->warp : 1);
  if (!registers && thread) total *= team;
  return total;
}

bool onlyDims(const Subject& s, const Expr& e) {
  for (const std::string& v : freeVars(e))
    if (std::none_of(s.dims.begin(), s.dims.end(), [&](const Dim& d) { return d.name == v; }))
      return false;
  return loadsOf(e).empty();
}

}  // namespace

void checkSpaces(const Subject& s) {
  Ranges dims;
  for (const Dim& d : s.dims) dims[d.name] = {d.low, d.high};
  std::vector<Held> held;
  Path path = s.path();
  const auto enter = [&](const Stmt& at, Path& p) {
    const Buffer* b = allocOf(at);
    if (!b) return;
    for (const Expr& e : b->shape)
      if (!onlyDims(s, e))
        return s.report(6, at, fmt::format("the size {} depends on more than dims", toText(e)));
    if (s.isIntrin) return;
    const bool inGrid = p.inside(LoopMode::Parallel), main = b->space == "main";
    if (main == inGrid)
      return s.report(6, at,
                      main ? "main is allocated outside the grids"
                           : "only main is allocated outside the grids");
    if (main || !s.options.target) return;
    const Level* level = s.options.target->level(b->space);
    if (!level)
      return s.report(6, at, fmt::format("{} has no space '{}'", s.options.target->name, b->space));
    if (s.options.target->hasExplicitMemory() && level->align > bytes(b->type) &&
        b->align % level->align != 0)
      s.report(6, at,
               fmt::format("aligned to {} bytes in {}, which wants {}",
                           std::max<int64_t>(b->align, bytes(b->type)), b->space, level->align));
    const int64_t bytes = bytesOf(s, *b, dims, p);
    held.push_back(
        {p.around.size(), level->name, (bytes + level->align - 1) / level->align * level->align});
    int64_t total = 0;
    for (const Held& h : held) total += h.space == level->name ? h.bytes : 0;
    if (total > level->bytes)
      s.report(6, at, fmt::format("{} bytes in {}, which has {}", total, b->space, level->bytes));
  };
  walk(s.body, path, {enter, [&](const Stmt& at, Path& p) {
                        if (!bodyOf(at)) return;
                        while (!held.empty() && held.back().depth > p.around.size())
                          held.pop_back();
                      }});
}

namespace {

bool inRegisters(const Named* n) {
  return n && (n->buffer->space == "reg" || n->buffer->space == "frag");
}

/// What may index a register: numbers, unrolled variables, lanes and threads.
void checkIndex(const Subject& s, const Stmt& at, const Ref& r, const Path& p) {
  const Named* n = p.buffer(r.buffer);
  if (!inRegisters(n) || n->param) return;
  for (const Expr& e : r.index) {
    if (!loadsOf(e).empty())
      return s.report(10, at, fmt::format("{}: index {} reads memory", r.buffer, toText(e)));
    for (const std::string& v : freeVars(e)) {
      const Named* var = p.find(v);
      if (var->kind != Named::Loop || var->loop->mode < LoopMode::Vector)
        return s.report(
            10, at,
            fmt::format("{}: index {} varies with '{}', which isn't unrolled, a lane or a thread",
                        r.buffer, toText(e), v));
    }
  }
  for (size_t d = n->depth; d < p.around.size(); d++) {
    const For* f = p.around[d]->as<For>();
    if (!f || (f->mode != LoopMode::Warp && f->mode != LoopMode::Thread)) continue;
    const bool owned = std::any_of(r.index.begin(), r.index.end(),
                                   [&](const Expr& e) { return e == var(f->var); });
    if (!owned)
      s.report(10, at,
               fmt::format("{} is shared by the threads of '{}', which is no index of it", r.buffer,
                           f->var));
  }
}

}  // namespace

void checkRegisters(const Subject& s) {
  if (s.isIntrin) return;
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path& p) {
          size_t before = p.names.size();
          const Copy* c = at.as<Copy>();
          if (c) {
            p.declareAxes(*c);
            checkIndex(s, at, c->from, p);
            if (c->to) checkIndex(s, at, *c->to, p);
          }
          eachExpr(at, [&](const Expr& e) {
            for (const Expr& l : loadsOf(e))
              checkIndex(s, at, {l.as<Load>()->buffer, l.as<Load>()->index}, p);
          });
          if (const Store* t = at.as<Store>())
            for (const Ref& r : t->targets) checkIndex(s, at, r, p);
          if (const Intrin* i = at.as<Intrin>())
            for (const IntrinArg& a : i->args)
              if (const Ref* r = std::get_if<Ref>(&a.value)) checkIndex(s, at, *r, p);
          p.names.resize(before);
        },
        nullptr});
}

}  // namespace tektite
