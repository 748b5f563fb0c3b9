#include <set>

#include "ir/kernel_rules.h"

namespace tektite {
namespace {

/// The plain cases of K12: what is never written though it is read, or must be.
void checkWritten(const Subject& s) {
  std::set<const Buffer*> written;
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path& p) {
          const auto write = [&](const Ref& r) { written.insert(p.buffer(r.buffer)->buffer); };
          if (const Store* t = at.as<Store>())
            for (const Ref& r : t->targets) write(r);
          if (const Copy* c = at.as<Copy>(); c && c->to) write(*c->to);
          const Intrin* i = at.as<Intrin>();
          for (size_t k = 0, next = 0; i && k < i->args.size(); k++)
            if (const Ref* r = std::get_if<Ref>(&i->args[k].value))
              if (s.module.intrin(i->name)->params[next++].mode != Param::In) write(*r);
        },
        nullptr});
  for (const Param& p : s.params)
    if (p.mode == Param::Out && !written.count(&p.buffer))
      s.report(12, fmt::format("'{}' is never written", p.buffer.name));
  Path again = s.path();
  walk(s.body, again,
       {[&](const Stmt& at, Path& p) {
          const auto read = [&](const std::string& name) {
            const Named* n = p.buffer(name);
            if (n && !n->param && !written.count(n->buffer))
              s.report(12, at, fmt::format("'{}' is read and never written", name));
          };
          eachExpr(at, [&](const Expr& e) {
            for (const Expr& l : loadsOf(e)) read(l.as<Load>()->buffer);
          });
          if (const Copy* c = at.as<Copy>(); c && c->to) read(c->from.buffer);
        },
        nullptr});
}

/// The plain case of K5: all iterations of a parallel loop, or lanes of a vector loop, store to one element.
void checkOneElement(const Subject& s, const Stmt& at, const Store& t, const Path& p,
                     const std::set<const For*>& alone) {
  for (const Ref& r : t.targets) {
    const Named* n = p.buffer(r.buffer);
    for (size_t d = n->depth; d < p.around.size(); d++) {
      const For* f = p.around[d]->as<For>();
      if (!f || alone.count(f)) continue;
      const bool vector = f->mode == LoopMode::Vector && t.combine.empty();
      if ((f->mode != LoopMode::Parallel && !vector) || asInteger(f->extent).value_or(2) <= 1)
        continue;
      bool varies = false;
      const auto see = [&](const Expr& e) {
        for (const std::string& v : freeVars(e)) {
          const Named* var = p.find(v);
          varies |= v == f->var || (var && var->kind == Named::Loop &&
                                    var->depth > int(d));  // an inner loop may hold it
        }
        varies |= !loadsOf(e).empty();
      };
      for (const Expr& e : r.index) see(e);
      for (size_t inner = d + 1; inner < p.around.size(); inner++)
        if (const If* i = p.around[inner]->as<If>()) see(i->condition);
      if (!varies)
        s.report(5, at, fmt::format("{} is stored by every iteration of '{}'", r.buffer, f->var));
    }
  }
}

void checkStores(const Subject& s) {
  std::set<const For*> alone;  // grid loops whose last tile goes on by itself
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path& p) {
          if (const Sync* y = at.as<Sync>(); y && y->kind == Sync::Last)
            alone.insert(p.around.back()->as<For>());
          if (const Store* t = at.as<Store>()) checkOneElement(s, at, *t, p, alone);
        },
        nullptr});
}

/// The plain cases of K11: queues that there aren't, and queues nobody empties.
void checkQueues(const Subject& s) {
  std::map<std::string, const Stmt*> used;
  std::set<std::string> emptied;
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path&) {
          const Copy* c = at.as<Copy>();
          const Intrin* i = at.as<Intrin>();
          const std::string queue = c ? c->queue : i ? i->queue : "";
          if (!queue.empty()) used.try_emplace(queue, &at);
          if (const Sync* y = at.as<Sync>(); y && y->kind == Sync::Queue && y->pending == 0)
            emptied.insert(y->name);
        },
        nullptr});
  for (const auto& [queue, at] : used) {
    if (const Target* t = s.options.target;
        t && std::find(t->queues.begin(), t->queues.end(), queue) == t->queues.end())
      s.report(11, *at, fmt::format("{} has no queue '{}'", t->name, queue));
    if (!emptied.count(queue))
      s.report(11, *at, fmt::format("no `sync {} 0` empties the queue", queue));
  }
}

}  // namespace

void checkFlow(const Subject& s) {
  checkWritten(s);
  checkStores(s);
  checkQueues(s);
}

}  // namespace tektite
