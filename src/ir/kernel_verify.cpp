#include "ir/kernel_verify.h"

#include "ir/kernel_rules.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

bool written(const Ref& r, const Path& p) {
  const Named* n = p.buffer(r.buffer);
  return !n || !n->param || n->param->mode != Param::In;
}

/// Names, ranks and dtypes of an expression.
void checkExpr(const Subject& s, const Stmt& at, const Expr& root, const Path& p) {
  visit(root, [&](const Expr& e) {
    if (const Var* v = e.as<Var>()) {
      const Named* n = p.find(v->name);
      if (!n || n->kind == Named::Buffer_)
        s.report(1, at, fmt::format("no variable '{}' in scope", v->name));
      else if (e.type() != DType::I64)
        s.report(13, at, fmt::format("'{}' is i64, found {}", v->name, name(e.type())));
    }
    const Load* l = e.as<Load>();
    if (!l) return;
    const Named* n = p.buffer(l->buffer);
    if (!n) return s.report(1, at, fmt::format("no buffer '{}' in scope", l->buffer));
    if (n->buffer->shape.size() != l->index.size())
      s.report(2, at,
               fmt::format("'{}' has rank {}, found {} indices", l->buffer, n->buffer->shape.size(),
                           l->index.size()));
    if (n->buffer->type != e.type())
      s.report(
          13, at,
          fmt::format("'{}' is {}, found {}", l->buffer, name(n->buffer->type), name(e.type())));
    if (n->buffer->space == "frag" && !s.isIntrin)
      s.report(8, at, fmt::format("'{}' is in frag: only instructions touch it", l->buffer));
    for (const Expr& i : l->index)
      if (i.type() != DType::I64)
        s.report(13, at, fmt::format("an index is i64, found {}", name(i.type())));
  });
}

void expectType(const Subject& s, const Stmt& at, const Expr& e, DType type, const char* what) {
  if (e.type() != type)
    s.report(13, at, fmt::format("{} is {}, found {}", what, name(type), name(e.type())));
}

/// The buffer of a ref that is stored to or copied; null (and told) where there is none.
const Buffer* checkRef(const Subject& s, const Stmt& at, const Ref& r, const Path& p, bool stored,
                       bool tile = false) {
  const Named* n = p.buffer(r.buffer);
  if (!n) {
    s.report(1, at, fmt::format("no buffer '{}' in scope", r.buffer));
    return nullptr;
  }
  if (n->buffer->shape.size() != r.index.size()) {
    s.report(2, at,
             fmt::format("'{}' has rank {}, found {} indices", r.buffer, n->buffer->shape.size(),
                         r.index.size()));
    return nullptr;
  }
  for (const Expr& i : r.index) expectType(s, at, i, DType::I64, "an index");
  if (stored && !written(r, p)) s.report(3, at, fmt::format("'{}' is an input", r.buffer));
  if (!tile && !s.isIntrin && n->buffer->space == "frag")
    s.report(8, at, fmt::format("'{}' is in frag: only instructions touch it", r.buffer));
  return n->buffer;
}

void checkNew(const Subject& s, const Stmt& at, const std::string& name, const Path& p) {
  if (p.find(name)) s.report(1, at, fmt::format("'{}' is bound already", name));
}

void checkStore(const Subject& s, const Stmt& at, const Store& t, const Path& p) {
  if (t.targets.size() != t.values.size())
    return s.report(2, at, fmt::format("{} targets, {} values", t.targets.size(), t.values.size()));
  const Combine* declared = s.module.combine(t.combine);
  if (!t.combine.empty() && !declared && !isBuiltinCombine(t.combine))
    return s.report(1, at, fmt::format("no combine '{}'", t.combine));
  if (declared && declared->arity() != t.targets.size())
    return s.report(2, at,
                    fmt::format("'{}' joins {} values, found {}", t.combine, declared->arity(),
                                t.targets.size()));
  for (size_t k = 0; k < t.targets.size(); k++) {
    const Buffer* b = checkRef(s, at, t.targets[k], p, true);
    if (!b) continue;
    expectType(s, at, t.values[k], b->type, "the value");
    if (declared) {
      if (declared->types[k] != b->type)
        s.report(13, at,
                 fmt::format("'{}' joins {}, found {}", t.combine, name(declared->types[k]),
                             name(b->type)));
    } else if (!t.combine.empty()) {
      const bool logical = t.combine == "any" || t.combine == "all";
      if (logical ? isFloat(b->type) : b->type == DType::Bool)
        s.report(13, at, fmt::format("'{}' doesn't join {}", t.combine, name(b->type)));
    }
  }
}

void checkCopy(const Subject& s, const Stmt& at, const Copy& c, Path& p) {
  for (const CopyAxis& a : c.axes) {
    checkNew(s, at, a.var, p);
    expectType(s, at, a.extent, DType::I64, "an extent");
  }
  const size_t before = p.declareAxes(c);
  const Buffer* from = checkRef(s, at, c.from, p, false);
  const Buffer* to = c.to ? checkRef(s, at, *c.to, p, true) : nullptr;
  if (from && to && from->type != to->type)
    s.report(13, at, fmt::format("a copy of {} to {}", name(from->type), name(to->type)));
  if (from && c.fill) expectType(s, at, c.fill, from->type, "the fill");
  p.names.resize(before);
}

void checkCall(const Subject& s, const Stmt& at, const Intrin& i, const Path& p) {
  const IntrinDef* def = s.module.intrin(i.name);
  if (!def) return s.report(1, at, fmt::format("no instruction '{}'", i.name));
  if (def->isDim.size() != i.args.size())
    return s.report(
        2, at,
        fmt::format("'{}' takes {} operands, found {}", i.name, def->isDim.size(), i.args.size()));
  size_t next = 0;
  for (size_t k = 0; k < i.args.size(); k++) {
    const Ref* r = std::get_if<Ref>(&i.args[k].value);
    if ((r == nullptr) != def->isDim[k])
      return s.report(2, at,
                      fmt::format("operand {} of '{}' is {}", k, i.name,
                                  def->isDim[k] ? "a number" : "a tile"));
    if (!r) {
      expectType(s, at, std::get<Expr>(i.args[k].value), DType::I64, "a dim");
      continue;
    }
    const Param& declared = def->params[next++];
    const Buffer* b = checkRef(s, at, *r, p, declared.mode != Param::In, true);
    if (!b) continue;
    if (b->type != declared.buffer.type)
      s.report(8, at,
               fmt::format("'{}' is {}, the operand {}", b->name, name(b->type),
                           name(declared.buffer.type)));
    if (b->space != declared.buffer.space)
      s.report(8, at,
               fmt::format("'{}' is in {}, the operand in {}", b->name, b->space,
                           declared.buffer.space));
    if (b->shape.size() < declared.buffer.shape.size())
      s.report(8, at,
               fmt::format("'{}' has rank {}, its tile {}", b->name, b->shape.size(),
                           declared.buffer.shape.size()));
  }
}

void checkAlloc(const Subject& s, const Stmt& at, const Buffer& b, const Path& p) {
  checkNew(s, at, b.name, p);
  if (!b.strides.empty() && b.strides.size() != b.shape.size())
    s.report(2, at,
             fmt::format("'{}' has rank {}, found {} strides", b.name, b.shape.size(),
                         b.strides.size()));
}

void checkParams(const Subject& s) {
  Path p;
  for (const Dim& d : s.dims) {
    if (p.find(d.name)) s.report(1, fmt::format("'{}' is bound already", d.name));
    p.declare({d}, {});
  }
  std::map<std::string, const Buffer*> classes;
  for (const Param& param : s.params) {
    const Buffer& b = param.buffer;
    if (p.find(b.name)) s.report(1, fmt::format("'{}' is bound already", b.name));
    p.names.push_back({Named::Buffer_, b.name, nullptr, &b, &param});
    if (!b.strides.empty() && b.strides.size() != b.shape.size())
      s.report(2, fmt::format("'{}' has rank {}, found {} strides", b.name, b.shape.size(),
                              b.strides.size()));
    if (b.alias.empty()) continue;
    const auto [it, fresh] = classes.try_emplace(b.alias, &b);
    if (!fresh && it->second->type != b.type)
      s.report(13,
               fmt::format("'{}' and '{}' are one memory of two dtypes", it->second->name, b.name));
  }
}

}  // namespace

void checkNames(const Subject& s) {
  checkParams(s);
  Path path = s.path();
  walk(s.body, path,
       {[&](const Stmt& at, Path& p) {
          size_t before = p.names.size();
          if (const Copy* c = at.as<Copy>()) {
            checkCopy(s, at, *c, p);
            before = p.declareAxes(*c);
          }
          eachExpr(at, [&](const Expr& e) { checkExpr(s, at, e, p); });
          p.names.resize(before);
          std::visit(
              overloaded{
                  [](const BlockStmt&) {},
                  [&](const For& f) {
                    checkNew(s, at, f.var, p);
                    expectType(s, at, f.extent, DType::I64, "an extent");
                    if (f.mode >= LoopMode::Vector && !asInteger(f.extent))
                      s.report(7, at,
                               fmt::format("the extent of a {} loop is constant, found {}",
                                           name(f.mode), toText(f.extent)));
                  },
                  [&](const If& i) { expectType(s, at, i.condition, DType::Bool, "a condition"); },
                  [&](const Alloc& a) { checkAlloc(s, at, a.buffer, p); },
                  [&](const Store& t) { checkStore(s, at, t, p); }, [](const Copy&) {},
                  [](const Sync&) {}, [&](const Intrin& i) { checkCall(s, at, i, p); }},
              at.kind);
        },
        nullptr});
}

std::vector<KernelFault> faultsOf(const KernelModule& module, const KernelVerifyOptions& options) {
  std::vector<KernelFault> faults;
  const auto check = [&](const Subject& s) {
    const size_t before = faults.size();
    checkNames(s);
    if (faults.size() > before) return;  // the others rely on names and ranks
    checkStructure(s);
    checkSpaces(s);
    checkRegisters(s);
    checkFlow(s);
    if (options.bounds) checkBounds(s);
  };
  for (const IntrinDef& i : module.intrins)
    check({module, options, "intrin " + i.name, i.dims, i.params, i.body, true, faults});
  for (const Kernel& k : module.kernels)
    check({module, options, "kernel " + k.name, k.dims, k.params, k.body, false, faults});
  return faults;
}

void verifyKernels(const KernelModule& module, const KernelVerifyOptions& options) {
  const auto faults = faultsOf(module, options);
  if (!faults.empty()) throw faults[0];
}

}  // namespace tektite
