#include "lower/kernel_rewrite.h"

#include <algorithm>

#include "ir/kernel_walk.h"
#include "support/overloaded.h"

namespace tektite {

Stmt mapStmtExprs(const Stmt& s, const std::function<Expr(const Expr&)>& map) {
  Stmt out = s;
  const auto all = [&](std::vector<Expr>& list) {
    for (Expr& e : list) e = map(e);
  };
  std::visit(overloaded{[](BlockStmt&) {}, [&](For& f) { f.extent = map(f.extent); },
                        [&](If& i) { i.condition = map(i.condition); },
                        [&](Alloc& a) {
                          all(a.buffer.shape);
                          all(a.buffer.strides);
                        },
                        [&](Store& t) {
                          for (Ref& r : t.targets) all(r.index);
                          all(t.values);
                        },
                        [&](Copy& c) {
                          for (CopyAxis& a : c.axes) a.extent = map(a.extent);
                          all(c.from.index);
                          if (c.to) all(c.to->index);
                          if (c.fill) c.fill = map(c.fill);
                        },
                        [](Sync&) {},
                        [&](Intrin& i) {
                          for (IntrinArg& a : i.args) {
                            if (Ref* r = std::get_if<Ref>(&a.value))
                              all(r->index);
                            else
                              a.value = map(std::get<Expr>(a.value));
                          }
                        }},
             out.kind);
  return out;
}

Stmt withBody(const Stmt& s, Block body) {
  if (const For* f = s.as<For>())
    return {For{f->var, f->extent, f->mode, std::move(body)}, s.comment};
  if (const If* i = s.as<If>()) return {If{i->condition, std::move(body)}, s.comment};
  return {BlockStmt{std::move(body)}, s.comment};
}

bool Touched::read(const std::string& buffer) const {
  return std::find(reads.begin(), reads.end(), buffer) != reads.end();
}
bool Touched::written(const std::string& buffer) const {
  return std::find(writes.begin(), writes.end(), buffer) != writes.end();
}

Touched touchedBy(const Block& block, const KernelModule& module) {
  Touched out;
  Path path;
  const auto note = [](std::vector<std::string>& list, const std::string& name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  };
  walk(block, path,
       {[&](const Stmt& s, Path&) {
          eachExpr(s, [&](const Expr& e) {
            for (const Expr& l : loadsOf(e)) note(out.reads, l.as<Load>()->buffer);
          });
          if (const Store* t = s.as<Store>())
            for (const Ref& r : t->targets) note(out.writes, r.buffer);
          if (const Copy* c = s.as<Copy>(); c && c->to) {
            note(out.reads, c->from.buffer);
            note(out.writes, c->to->buffer);
          }
          const Intrin* i = s.as<Intrin>();
          const IntrinDef* def = i ? module.intrin(i->name) : nullptr;
          for (size_t k = 0, next = 0; def && k < i->args.size(); k++) {
            const Ref* r = std::get_if<Ref>(&i->args[k].value);
            if (!r) continue;
            const Param::Mode mode = def->params[next++].mode;
            if (mode != Param::Out) note(out.reads, r->buffer);
            if (mode != Param::In) note(out.writes, r->buffer);
          }
        },
        nullptr});
  return out;
}

}  // namespace tektite
