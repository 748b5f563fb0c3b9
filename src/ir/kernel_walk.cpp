#include "ir/kernel_walk.h"

#include "support/overloaded.h"

namespace tektite {

const Named* Path::find(std::string_view name) const {
  for (auto it = names.rbegin(); it != names.rend(); ++it)
    if (it->name == name) return &*it;
  return nullptr;
}

const Named* Path::buffer(std::string_view name) const {
  const Named* n = find(name);
  return n && n->kind == Named::Buffer_ ? n : nullptr;
}

std::vector<const For*> Path::loops() const {
  std::vector<const For*> out;
  for (const Stmt* s : around)
    if (const For* f = s->as<For>()) out.push_back(f);
  return out;
}

bool Path::inside(LoopMode mode) const {
  for (const Stmt* s : around)
    if (const For* f = s->as<For>(); f && f->mode == mode) return true;
  return false;
}

void Path::declare(const std::vector<Dim>& dims, const std::vector<Param>& params) {
  for (const Dim& d : dims) names.push_back({Named::Dim_, d.name});
  for (const Param& p : params)
    names.push_back({Named::Buffer_, p.buffer.name, nullptr, &p.buffer, &p});
}

size_t Path::declareAxes(const Copy& copy) {
  const size_t before = names.size();
  for (const CopyAxis& a : copy.axes) names.push_back({Named::Axis, a.var});
  return before;
}

const Block* bodyOf(const Stmt& s) {
  if (const BlockStmt* b = s.as<BlockStmt>()) return &b->body;
  if (const For* f = s.as<For>()) return &f->body;
  if (const If* i = s.as<If>()) return &i->body;
  return nullptr;
}

const Buffer* allocOf(const Stmt& s) {
  const Alloc* a = s.as<Alloc>();
  return a ? &a->buffer : nullptr;
}

void walk(const Block& block, Path& path, const Walk& visit) {
  const size_t outer = path.names.size();
  const int depth = static_cast<int>(path.around.size());
  for (const Stmt& s : block) {
    visit.enter(s, path);
    if (const Block* body = bodyOf(s)) {
      const size_t before = path.names.size();
      if (const For* f = s.as<For>())
        path.names.push_back({Named::Loop, f->var, f, nullptr, nullptr, depth});
      path.around.push_back(&s);
      walk(*body, path, visit);
      path.around.pop_back();
      path.names.resize(before);
    }
    if (visit.leave) visit.leave(s, path);
    if (const Buffer* b = allocOf(s))
      path.names.push_back({Named::Buffer_, b->name, nullptr, b, nullptr, depth});
  }
  path.names.resize(outer);
}

int64_t bytesOf(const Buffer& b) {
  int64_t n = bytes(b.type);
  for (const Expr& e : b.shape) n *= asInteger(e).value_or(0);
  return n;
}

void eachExpr(const Stmt& s, const std::function<void(const Expr&)>& see) {
  const auto all = [&](const std::vector<Expr>& list) {
    for (const Expr& e : list) see(e);
  };
  std::visit(overloaded{[](const BlockStmt&) {}, [&](const For& f) { see(f.extent); },
                        [&](const If& i) { see(i.condition); },
                        [&](const Alloc& a) {
                          all(a.buffer.shape);
                          all(a.buffer.strides);
                        },
                        [&](const Store& t) {
                          for (const Ref& r : t.targets) all(r.index);
                          all(t.values);
                        },
                        [&](const Copy& c) {
                          for (const CopyAxis& a : c.axes) see(a.extent);
                          all(c.from.index);
                          if (c.to) all(c.to->index);
                          if (c.fill) see(c.fill);
                        },
                        [](const Sync&) {},
                        [&](const Intrin& i) {
                          for (const IntrinArg& a : i.args) {
                            if (const Ref* r = std::get_if<Ref>(&a.value))
                              all(r->index);
                            else
                              see(std::get<Expr>(a.value));
                          }
                        }},
             s.kind);
}

std::string firstLine(const Stmt& s) {
  Stmt bare = s;
  bare.comment.clear();
  const std::string text = toText(Block{bare});
  return text.substr(0, text.find('\n'));
}

}  // namespace tektite
