#include "backends/npu/hivm.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "backends/npu/hivm_vector.h"
#include "lower/kernel_rewrite.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr int64_t kStrip = 256;  // elements of a vector loop's intermediate values

/// What the dialect calls the levels.
const std::map<std::string, std::string>& spaces() {
  static const std::map<std::string, std::string> table = {
      {"main", "gm"}, {"ub", "ub"}, {"l1", "cbuf"}, {"l0a", "ca"}, {"l0b", "cb"}, {"l0c", "cc"}};
  return table;
}
const std::map<std::string, const char*>& builtinJoins() {
  static const std::map<std::string, const char*> table = {
      {"sum", "add"}, {"product", "mul"}, {"max", "max"}, {"min", "min"}};
  return table;
}

/// The wait in a grid for all tiles of its innermost loop; null: none.
const Sync* waitIn(const For& grid) {
  for (const Stmt& s : grid.body) {
    if (const Sync* y = s.as<Sync>(); y && y->kind == Sync::Last) return y;
    if (const For* f = s.as<For>(); f && f->mode == LoopMode::Parallel)
      if (const Sync* y = waitIn(*f)) return y;
  }
  return nullptr;
}
/// The grid with what its tiles do before that wait, or with what stands behind it: once, whichever tile comes last.
For sideOf(const For& grid, const Sync& wait, bool behind) {
  For out = grid;
  out.body.clear();
  if (grid.var == wait.name && behind) out.extent = Expr(1);
  bool passed = false;
  for (const Stmt& s : grid.body) {
    if (const For* f = s.as<For>(); f && grid.var != wait.name)
      out.body.push_back({sideOf(*f, wait, behind), s.comment});
    else if (s.as<Sync>() == &wait)
      passed = true;
    else if (passed == behind || (behind && s.as<Alloc>()))
      out.body.push_back(s);
  }
  return out;
}

class Hivm {
 public:
  Hivm(const KernelModule& module, const Kernel& kernel, const Target& target)
      : module_(module), kernel_(kernel), unit_(target.matrix) {}

  std::string run() {
    std::string params;
    const bool waits = std::ranges::any_of(kernel_.body, [](const Stmt& s) {
      const For* f = s.as<For>();
      return f && waitIn(*f);
    });
    if (waits) params = "%sync_base: i64 {hacc.arg_type = #hacc.arg_type<ffts_base_address>}";
    const auto param = [&](const Buffer& b) {
      declare(b, fmt::format("%{}", b.name));
      params += fmt::format("{}{}: {}", params.empty() ? "" : ", ", out_.memory[b.name].value,
                            out_.memory[b.name].type);
    };
    for (const Param& p : kernel_.params) param(p.buffer);
    for (const Stmt& s : kernel_.body)  // workspaces
      if (const Alloc* a = s.as<Alloc>()) param(a->buffer);
    if (waits) out_.line("hivm.hir.set_ffts_base_addr %sync_base");
    const std::string block = out_.made("hivm.hir.get_block_idx -> i64"),
                      blocks = out_.made("hivm.hir.get_block_num -> i64");
    first_ = out_.made(fmt::format("arith.index_cast {} : i64 to index", block));
    step_ = out_.made(fmt::format("arith.index_cast {} : i64 to index", blocks));
    for (const Stmt& s : kernel_.body) {
      const For* f = s.as<For>();
      const Sync* wait = f ? waitIn(*f) : nullptr;
      if (wait) {  // every block waits for all others
        loop(sideOf(*f, *wait, false));
        out_.line("hivm.hir.sync_block[<ALL_VECTOR>, 0 : i64] tvector_pipe = <PIPE_MTE3>");
        loop(sideOf(*f, *wait, true));
      } else if (!s.as<Alloc>()) {
        statement(s);
      }
    }
    out_.line("return");
    return fmt::format(
        "module {{\n  func.func @{}({}) attributes {{hacc.entry, hivm.func_core_type = "
        "#hivm.func_core_type<{}>}} {{\n{}  }}\n}}\n",
        kernel_.name, params,
        cube_ && vector_ ? "MIX"
        : cube_          ? "AIC"
                         : "AIV",
        out_.take());
  }

 private:
  const KernelModule& module_;
  const Kernel& kernel_;
  const MatrixUnit& unit_;
  MlirText out_;
  Ranges ranges_;
  std::string first_, step_;
  bool inGrid_ = false, cube_ = false, vector_ = false;
  std::map<std::string, const Copy*> fed_;  // what lies in the matrix unit's operands

  void declare(const Buffer& b, const std::string& value) {
    std::string shape;
    for (const Expr& e : b.shape) shape += fmt::format("{}x", *asInteger(e));
    const std::string space = b.space == "reg" ? "" : spaces().at(b.space);
    out_.memory[b.name] = {value, MlirText::memref(shape, b.type, space), b.type, b.shape, space};
  }
  void block(const Block& body) {
    for (const Stmt& s : body) statement(s);
  }
  void statement(const Stmt& s) {
    std::visit(
        overloaded{[&](const BlockStmt& b) { block(b.body); }, [&](const For& f) { loop(f); },
                   [&](const If& i) {
                     const std::string c = out_.scalar(i.condition);
                     out_.open(fmt::format("scf.if {}", c));
                     block(i.body);
                     out_.close();
                   },
                   [&](const Alloc& a) { allocate(a.buffer); }, [&](const Store& t) { store(t); },
                   [&](const Copy& c) {
                     if (c.to) copy(c);
                   },
                   [](const Sync&) {}, [&](const Intrin& i) { product(i); }},
        s.kind);
  }
  void allocate(const Buffer& b) {
    if (b.space == unit_.left || b.space == unit_.right) {
      fed_[b.name] = nullptr;
      out_.memory[b.name] = {"", "", b.type, b.shape, spaces().at(b.space)};
      return;
    }
    declare(b, out_.fresh());
    const MlirText::Memory& m = out_.memory[b.name];
    out_.line(fmt::format("{} = memref.{}() : {}", m.value, b.space == "reg" ? "alloca" : "alloc",
                          m.type));
  }
  /// `from`, `step`: values; by default from 0 by 1.
  void loopOver(const std::string& var, const Expr& extent, const std::function<void()>& body,
                std::string from = {}, std::string step = {}) {
    const std::string n = out_.index(extent);
    if (from.empty()) from = out_.integer(0), step = out_.integer(1);
    const std::string v = out_.fresh();
    const Ranges outer = ranges_;
    const auto before = out_.variables;
    ranges_[var] = {0, std::max<int64_t>(boundsOf(extent, outer).high - 1, 0)};
    out_.variables[var] = v;
    out_.open(fmt::format("scf.for {} = {} to {} step {}", v, from, n, step));
    body();
    out_.close();
    ranges_ = outer;
    out_.variables = before;
  }
  void loop(const For& f) {
    const bool dealt = f.mode == LoopMode::Parallel && !inGrid_;
    const bool isLong = boundsOf(f.extent, ranges_).high > kStrip;
    if (!dealt && printVectorLoop(out_, isLong ? strip(f) : f, ranges_, isLong)) {
      if (isLong)
        loopOver(stripOf(f), floorDiv(f.extent + Expr(kStrip - 1), Expr(kStrip)),
                 [&] { printVectorLoop(out_, strip(f), ranges_); });
      vector_ = true;
      return;
    }
    const bool outer = inGrid_;
    inGrid_ = true;
    loopOver(f.var, f.extent, [&] { block(f.body); }, dealt ? first_ : "", dealt ? step_ : "");
    inGrid_ = outer;
  }
  /// Intermediate values of a vector loop take room beside the buffers: a strip of them.
  static std::string stripOf(const For& f) { return f.var + "_strip"; }
  static For strip(const For& f) {
    const Expr first = var(stripOf(f)) * Expr(kStrip);
    const std::unordered_map<std::string, Expr> at = {{f.var, var(f.var) + first}};
    const std::function<Block(const Block&)> moved = [&](const Block& block) {
      Block out;
      for (const Stmt& s : block) {
        const Stmt here =
            mapStmtExprs(s, [&](const Expr& e) { return simplify(substitute(e, at), {}); });
        const BlockStmt* b = here.as<BlockStmt>();
        out.push_back(b ? withBody(here, moved(b->body)) : here);
      }
      return out;
    };
    return {f.var, min(Expr(kStrip), f.extent - first), f.mode, moved(f.body)};
  }
  void store(const Store& s) {
    std::vector<std::string> values;
    for (const Expr& e : s.values) values.push_back(out_.scalar(e));
    for (size_t i = 0; i < s.targets.size(); i++) {
      const Ref& to = s.targets[i];
      std::string v = values[i];
      const DType t = s.values[i].type();
      if (!s.combine.empty()) {
        const std::string before = out_.loadOf(to.buffer, to.index),
                          how = builtinJoins().at(s.combine);
        const std::string type = t == DType::I64 ? "index" : MlirText::typeOf(t);
        const bool extreme = how == "max" || how == "min";
        const std::string suffix = isFloat(t)    ? extreme ? "imumf" : "f"
                                   : !extreme    ? "i"
                                   : isSigned(t) ? "si"
                                                 : "ui";
        v = out_.made(fmt::format("arith.{}{} {}, {} : {}", how, suffix, before, v, type));
      }
      if (out_.memory.at(to.buffer).space == "ub") vector_ = true;
      out_.store(v, to.buffer, to.index);
    }
  }

  // ---- copies

  /// Are all indices sums of these axes, and is each among them?
  static bool isSum(const Ref& r, const std::vector<CopyAxis>& axes) {
    std::set<std::string> seen;
    for (const Expr& e : r.index)
      for (const auto& [term, c] : linearOf(e).terms)
        for (const std::string& v : freeVars(term)) {
          if (!std::ranges::count(axes, v, &CopyAxis::var)) continue;
          if (!term.as<Var>()) return false;
          seen.insert(v);
        }
    return seen.size() == axes.size();
  }
  void copy(const Copy& c) {
    if (fed_.count(c.to->buffer)) {
      fed_[c.to->buffer] = &c;
      return;
    }
    std::vector<CopyAxis> axes = c.axes;
    Ref to = *c.to, from = c.from;
    for (const CopyAxis& one : axes)  // an element is a row of one
      if (isConstant(one.extent, 1) && !isSum(to, {one}) && !isSum(from, {one}))
        for (Ref* r : {&to, &from}) r->index.back() = r->index.back() + var(one.var);
    if (c.fill) {
      fill(c);
      clip(to, from, axes);
    }
    part(to, from, axes);
  }
  /// The axes along which an index is no sum are loops.
  void part(Ref to, Ref from, std::vector<CopyAxis> axes) {
    if (axes.empty()) return out_.store(out_.loadOf(from.buffer, from.index), to.buffer, to.index);
    if (!isSum(to, axes) || !isSum(from, axes)) {
      size_t loop = 0;
      for (size_t k = axes.size(); k-- > 0;)
        if (!isSum(to, {axes[k]}) || !isSum(from, {axes[k]})) loop = k;
      const CopyAxis a = axes[loop];
      axes.erase(axes.begin() + static_cast<long>(loop));
      return loopOver(a.var, a.extent, [&] { part(to, from, axes); });
    }
    std::vector<std::string> names, sizes;
    for (const CopyAxis& a : axes) {
      names.push_back(a.var);
      sizes.push_back(out_.index(a.extent));
    }
    const auto x = out_.view(from, names, sizes), y = out_.view(to, names, sizes);
    const std::string& a = out_.memory.at(from.buffer).space;
    const std::string& b = out_.memory.at(to.buffer).space;
    const char* how = a == "cc" ? "fixpipe" : a == "gm" ? "load" : b == "gm" ? "store" : "copy";
    (a == "cc" || b == "cbuf" ? cube_ : vector_) = true;
    out_.line(fmt::format("hivm.hir.{} ins({} : {}) outs({} : {})", how, x->value, x->type,
                          y->value, y->type));
  }
  void fill(const Copy& c) {
    std::vector<std::string> names, sizes;
    for (const CopyAxis& a : c.axes) {
      names.push_back(a.var);
      sizes.push_back(out_.index(a.extent));
    }
    const std::string v = out_.scalar(c.fill);
    if (const auto to = isSum(*c.to, c.axes) ? out_.view(*c.to, names, sizes) : std::nullopt)
      return out_.line(fmt::format("hivm.hir.vbrc ins({} : {}) outs({} : {})", v,
                                   MlirText::typeOf(c.fill.type()), to->value, to->type));
    std::function<void(size_t)> nest = [&](size_t k) {
      if (k == c.axes.size()) return out_.store(v, c.to->buffer, c.to->index);
      loopOver(c.axes[k].var, c.axes[k].extent, [&] { nest(k + 1); });
    };
    nest(0);
  }
  /// Only what lies inside of the tensor: an axis begins later and ends earlier.
  void clip(Ref& to, Ref& from, std::vector<CopyAxis>& axes) const {
    const std::vector<Expr>& shape = out_.memory.at(from.buffer).shape;
    for (size_t d = 0; d < from.index.size(); d++)
      for (CopyAxis& a : axes) {
        if (linearOf(from.index[d]).coefficientOf(a.var) != 1) continue;
        const Expr at = simplify(from.index[d] - var(a.var), {});
        const Expr low = simplify(max(Expr(0), Expr(0) - at), ranges_);
        a.extent = simplify(max(Expr(0), min(a.extent, shape[d] - at) - low), ranges_);
        for (Ref* r : {&to, &from})
          for (Expr& e : r->index) e = substitute(e, {{a.var, var(a.var) + low}});
      }
  }

  // ---- products

  /// A tile of rows and columns that an instruction's operand names by its first element.
  MlirText::View tile(const Ref& r, const std::string& rows, const std::string& columns) {
    Ref at = r;
    at.index[at.index.size() - 2] = at.index[at.index.size() - 2] + var("#r");
    at.index.back() = at.index.back() + var("#c");
    return *out_.view(at, {"#r", "#c"}, {rows, columns});
  }
  void product(const Intrin& i) {
    cube_ = true;
    const auto at = [&](size_t k) { return std::get<Expr>(i.args[k].value); };
    const Copy &left = *fed_.at(std::get<Ref>(i.args[5].value).buffer),
               &right = *fed_.at(std::get<Ref>(i.args[6].value).buffer);
    std::vector<CopyAxis>
        depth;  // in both: the first is the instruction's own, the others are loops
    for (const CopyAxis& a : left.axes)
      if (std::ranges::count(right.axes, a.var, &CopyAxis::var) && a.var != "e") depth.push_back(a);
    Expr first = eq(at(0), Expr(1));
    std::function<void(size_t)> nest = [&](size_t k) {
      if (k < depth.size())
        return loopOver(depth[k].var, depth[k].extent, [&] {
          first = logicalAnd(first, eq(var(depth[k].var), Expr(0)));
          nest(k + 1);
        });
      multiply(i, left, right, depth.empty() ? "" : depth[0].var, first);
    };
    nest(1);
  }
  void multiply(const Intrin& i, const Copy& left, const Copy& right, const std::string& deep,
                const Expr& first) {
    const auto at = [&](size_t k) { return out_.index(std::get<Expr>(i.args[k].value)); };
    const std::string m = at(1), n = at(2);
    std::string k = out_.integer(1);
    for (const CopyAxis& a : left.axes)
      if (a.var == deep) k = out_.index(a.extent);
    const auto l = *out_.view(left.from, {"e", deep}, {m, k});
    const auto r = *out_.view(right.from, {deep, "e"}, {k, n});
    const auto c = tile(std::get<Ref>(i.args[4].value), m, n);
    const std::string fresh = out_.scalar(simplify(first, ranges_));
    out_.line(
        fmt::format("hivm.hir.mmadL1 ins({}, {}, {}, {}, {}, {} : {}, {}, i1, index, index, index) "
                    "outs({} : {})",
                    l.value, r.value, fresh, m, k, n, l.type, r.type, c.value, c.type));
  }
};

}  // namespace

Supports hivmSupports(const KernelModule&, const Kernel& kernel, const Target& target) {
  if (!kernel.dims.empty()) return {false, "named dims"};
  if (!target.level("ub") || !target.level("l0c"))
    return {false, "memories that HIVM has no name for"};
  std::string why;
  const std::function<void(const Block&)> look = [&](const Block& block) {
    for (const Stmt& s : block) {
      if (const Sync* y = s.as<Sync>(); y && y->kind != Sync::Queue && y->kind != Sync::Last)
        why = "a wait between cores in the midst of a tile";
      if (const Store* t = s.as<Store>();
          t && !t->combine.empty() && !builtinJoins().count(t->combine))
        why = "a combine of its own";
      if (const For* f = s.as<For>()) look(f->body);
      if (const If* i = s.as<If>()) look(i->body);
      if (const BlockStmt* b = s.as<BlockStmt>()) look(b->body);
    }
  };
  look(kernel.body);
  return {why.empty(), why};
}

std::string hivmText(const KernelModule& module, const Kernel& kernel, const Target& target) {
  return Hivm(module, kernel, target).run();
}

}  // namespace tektite
