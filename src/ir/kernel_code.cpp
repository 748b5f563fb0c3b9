#include "ir/kernel_code.h"

#include "ir/kernel_fault.h"
#include "support/overloaded.h"

namespace tektite::code {
namespace {

class Compiler {
 public:
  Compiler(const KernelModule& module, const Kernel& kernel)
      : module_(module), place_("kernel " + kernel.name) {
    for (const IntrinDef& i : module.intrins) intrin(i);
    declare(kernel.dims, kernel.params, out_.dims, out_.params);
    out_.body = block(kernel.body);
  }
  Code take() { return std::move(out_); }

 private:
  struct Binding {
    std::string name;
    bool isBuffer;
    int slot;
  };

  int slotOf(const std::string& name, bool buffer) {
    for (auto it = scope_.rbegin(); it != scope_.rend(); ++it)
      if (it->name == name && it->isBuffer == buffer) return it->slot;
    throw KernelFault(1, place_,
                      fmt::format("no {} '{}' in scope", buffer ? "buffer" : "variable", name));
  }
  int bindVariable(const std::string& name) {
    out_.variables.push_back(name);
    scope_.push_back({name, false, int(out_.variables.size()) - 1});
    return scope_.back().slot;
  }
  int bindBuffer(const Buffer& b) {
    const bool registers = b.space == "reg" || b.space == "frag";
    begin();
    CodeBuffer c{b.name,    b.type,   exprs(b.shape), exprs(b.strides), b.space == "main",
                 registers, inVector_};
    c.alias = b.alias;
    out_.buffers.push_back(std::move(c));
    scope_.push_back({b.name, true, int(out_.buffers.size()) - 1});
    return scope_.back().slot;
  }
  void declare(const std::vector<Dim>& dims, const std::vector<Param>& params,
               std::vector<int>& dimSlots, std::vector<int>& slots) {
    for (const Dim& d : dims) dimSlots.push_back(bindVariable(d.name));
    for (const Param& p : params) {
      slots.push_back(bindBuffer(p.buffer));
      out_.buffers[slots.back()].isParam = true;
      out_.buffers[slots.back()].mode = p.mode;
    }
  }
  void intrin(const IntrinDef& def) {
    auto i = std::make_unique<CodeIntrin>();
    i->source = &def;
    declare(def.dims, def.params, i->dims, i->buffers);
    i->body = block(def.body);
    scope_.clear();
    out_.intrins.push_back(std::move(i));
  }

  // ---- expressions; equal nodes of one statement are one
  void begin() { seen_.clear(); }
  std::vector<int> exprs(const std::vector<Expr>& list) {
    std::vector<int> out;
    for (const Expr& e : list) out.push_back(expr(e));
    return out;
  }
  int expr(const Expr& e) {
    if (const auto it = seen_.find(e.hash()); it != seen_.end()) {
      Node& n = out_.nodes[it->second];
      if (n.memo < 0 && n.kind != Node::Imm && n.kind != Node::Var) n.memo = out_.memos++;
      return it->second;
    }
    Node n{};
    n.type = e.type();
    std::visit(overloaded{[&](const Imm& i) {
                            n.kind = Node::Imm;
                            if (isFloat(e.type()))
                              n.value.f = i.real;
                            else
                              n.value.i = i.integer;
                          },
                          [&](const Var& v) {
                            n.kind = Node::Var;
                            n.slot = slotOf(v.name, false);
                          },
                          [&](const Load& l) {
                            n.kind = Node::Load;
                            CodeRef r = ref({l.buffer, l.index});
                            n.slot = int(out_.loads.size());
                            out_.loads.push_back(std::move(r));
                          },
                          [&](const Cast& c) {
                            n.kind = Node::Cast;
                            n.from = c.arg.type();
                            n.args[0] = expr(c.arg);
                          },
                          [&](const Apply& a) {
                            n.kind = Node::Apply;
                            n.op = a.op;
                            n.from = a.args[0].type();
                            for (size_t k = 0; k < a.args.size(); k++) n.args[k] = expr(a.args[k]);
                          }},
               e->kind);
    n.fromReal = isFloat(n.from);
    out_.nodes.push_back(n);
    seen_[e.hash()] = int(out_.nodes.size()) - 1;
    return int(out_.nodes.size()) - 1;
  }
  CodeIndex index(const Expr& e) {
    CodeIndex out;
    if (!affine(e, 1, out)) {
      out = CodeIndex();
      out.node = expr(e);
    }
    return out;
  }
  bool affine(const Expr& e, int64_t factor, CodeIndex& out) {
    if (const auto i = asInteger(e)) return out.constant += factor * *i, true;
    if (const Var* v = e.as<Var>())
      return out.terms.emplace_back(slotOf(v->name, false), factor), true;
    const Apply* a = e.as<Apply>();
    if (!a) return false;
    if (a->op == Op::Add) return affine(a->args[0], factor, out) && affine(a->args[1], factor, out);
    if (a->op == Op::Sub)
      return affine(a->args[0], factor, out) && affine(a->args[1], -factor, out);
    const auto by = a->op == Op::Mul ? asInteger(a->args[1]) : std::nullopt;
    return by && std::abs(*by) < (1 << 20) && std::abs(factor) < (1 << 20) &&
           affine(a->args[0], factor * *by, out);
  }
  CodeRef ref(const Ref& r) {
    CodeRef out{slotOf(r.buffer, true), {}, r};
    for (const Expr& e : r.index) out.index.push_back(index(e));
    const size_t rank = out_.buffers[out.buffer].shape.size();
    if (rank != r.index.size())
      throw KernelFault(
          2, place_,
          fmt::format("'{}' has rank {}, found {} indices", r.buffer, rank, r.index.size()));
    return out;
  }

  // ---- statements
  std::vector<CodeStmt> block(const Block& b) {
    const size_t outer = scope_.size();
    std::vector<CodeStmt> out;
    for (const Stmt& s : b) {
      begin();
      out.push_back(statement(s));
    }
    scope_.resize(outer);
    return out;
  }
  CodeStmt statement(const Stmt& s) {
    CodeStmt c;
    c.source = &s;
    std::visit(overloaded{[&](const BlockStmt& b) { c.body = block(b.body); },
                          [&](const For& f) { loop(f, c); },
                          [&](const If& i) {
                            c.expr = expr(i.condition);
                            c.body = block(i.body);
                          },
                          [&](const Alloc& a) { c.slot = bindBuffer(a.buffer); },
                          [&](const Store& t) { store(t, c); }, [&](const Copy& y) { copy(y, c); },
                          [](const Sync&) {}, [&](const Intrin& i) { call(i, c); }},
               s.kind);
    return c;
  }
  void loop(const For& f, CodeStmt& c) {
    c.expr = expr(f.extent);
    const size_t outer = scope_.size();
    c.slot = bindVariable(f.var);
    const bool was = inVector_;
    inVector_ |= f.mode == LoopMode::Vector;
    c.body = block(f.body);
    inVector_ = was;
    scope_.resize(outer);
  }
  void store(const Store& t, CodeStmt& c) {
    for (const Ref& r : t.targets) c.refs.push_back(ref(r));
    c.values = exprs(t.values);
    if (t.combine.empty()) return;
    if (isBuiltinCombine(t.combine)) {
      c.builtin = true;
      c.op = builtinCombine(t.combine, DType::I64).result[0].as<Apply>()->op;
      return;
    }
    const Combine* combine = module_.combine(t.combine);
    if (!combine) throw KernelFault(1, place_, fmt::format("no combine '{}'", t.combine));
    if (combine->arity() != t.targets.size())
      throw KernelFault(2, place_,
                        fmt::format("'{}' joins {} values, found {}", t.combine, combine->arity(),
                                    t.targets.size()));
    begin();
    const size_t outer = scope_.size();
    for (const std::string& name : combine->left) c.left.push_back(bindVariable(name));
    for (const std::string& name : combine->right) c.right.push_back(bindVariable(name));
    c.joined = exprs(combine->result);
    scope_.resize(outer);
  }
  void copy(const Copy& y, CodeStmt& c) {
    const size_t outer = scope_.size();
    for (const CopyAxis& a : y.axes) c.axes.push_back({-1, expr(a.extent)});
    if (y.fill) c.expr = expr(y.fill);
    for (size_t i = 0; i < y.axes.size(); i++) c.axes[i].slot = bindVariable(y.axes[i].var);
    begin();
    if (y.to) {  // a prefetch touches nothing
      c.refs.push_back(ref(y.from));
      c.refs.push_back(ref(*y.to));
    }
    scope_.resize(outer);
  }
  void call(const Intrin& i, CodeStmt& c) {
    for (const auto& def : out_.intrins)
      if (def->source->name == i.name) c.intrin = def.get();
    if (!c.intrin) throw KernelFault(1, place_, fmt::format("no instruction '{}'", i.name));
    for (const IntrinArg& a : i.args) {
      if (const Ref* r = std::get_if<Ref>(&a.value))
        c.refs.push_back(ref(*r));
      else
        c.dims.push_back(expr(std::get<Expr>(a.value)));
    }
    if (c.dims.size() != c.intrin->dims.size() || c.refs.size() != c.intrin->buffers.size())
      throw KernelFault(
          2, place_,
          fmt::format("'{}' takes {} operands, found {}", i.name,
                      c.intrin->dims.size() + c.intrin->buffers.size(), i.args.size()));
  }

  const KernelModule& module_;
  std::string place_;
  Code out_;
  std::vector<Binding> scope_;
  std::unordered_map<Hash, int> seen_;
  bool inVector_ = false;
};

}  // namespace

Code compile(const KernelModule& module, const Kernel& kernel) {
  return Compiler(module, kernel).take();
}

}  // namespace tektite::code
