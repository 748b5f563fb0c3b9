#include <unordered_set>

#include "ir/combine_text.h"
#include "ir/expr_text.h"
#include "ir/kernel.h"
#include "support/check.h"

namespace tektite {
namespace {

const std::unordered_set<std::string_view> reserved = {
    "kernel", "intrin",   "combine", "dim",   "out",    "inout",    "strides", "align",
    "alias",  "identity", "for",     "in",    "serial", "parallel", "vector",  "unroll",
    "warp",   "thread",   "if",      "alloc", "stream", "copy",     "fill",    "async",
    "sync",   "shared",   "grid",    "last",  "inf",    "nan",
};

constexpr std::pair<std::string_view, std::string_view> signs[] = {
    {"+=", "sum"}, {"*=", "product"}, {"|=", "any"}, {"&=", "all"}};

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : in_(text, file) {
    names_.variable = [this](std::string_view n) { return find(n, false); };
    names_.buffer = [this](std::string_view n) { return find(n, true); };
  }

  KernelModule file() {
    while (in_.peek().kind != Token::End) {
      if (in_.accept("kernel"))
        kernel();
      else if (in_.accept("intrin"))
        intrin();
      else if (in_.at("combine"))
        combine();
      else
        in_.fail("'kernel', 'intrin' or 'combine'");
    }
    return std::move(out_);
  }

 private:
  struct Binding {
    std::string name;
    bool isBuffer;
    DType type;
    std::vector<Expr> shape;
  };

  // ---- names
  const Binding* binding(std::string_view name) const {
    for (auto it = scope_.rbegin(); it != scope_.rend(); ++it)
      if (it->name == name) return &*it;
    return nullptr;
  }
  std::optional<DType> find(std::string_view name, bool buffer) const {
    const Binding* b = binding(name);
    return b && b->isBuffer == buffer ? std::optional(b->type) : std::nullopt;
  }
  std::string newName(std::string_view what) {
    const Token t = in_.peek();
    const std::string name = in_.name(what);
    if (reserved.count(name) || dtypeFromName(name))
      in_.failAt(t, fmt::format("expected {}, found the reserved word '{}'", what, name));
    return name;
  }
  void bindVariable(const std::string& name, DType type = DType::I64) {
    scope_.push_back({name, false, type, {}});
  }
  void bindBuffer(const Buffer& b) { scope_.push_back({b.name, true, b.type, b.shape}); }

  // ---- pieces
  Expr expr(DType expected) { return parseExpr(in_, names_, expected); }
  std::vector<Expr> exprs(DType expected) {
    std::vector<Expr> out;
    do out.push_back(expr(expected));
    while (in_.accept(","));
    return out;
  }
  void type(Buffer& b) {
    in_.expect(":");
    b.type = parseDType(in_);
    if (in_.accept("[")) {
      do b.shape.push_back(expr(DType::I64));
      while (in_.accept("x"));
      in_.expect("]");
    }
    if (in_.accept("@")) b.space = in_.name("a space");
  }
  void layout(Buffer& b, bool param) {
    for (;;) {
      if (in_.accept("strides")) {
        in_.expect("=");
        in_.expect("[");
        b.strides = exprs(DType::I64);
        in_.expect("]");
      } else if (in_.accept("align")) {
        in_.expect("=");
        b.align = in_.integer("bytes");
      } else if (param && in_.accept("alias")) {
        in_.expect("=");
        b.alias = in_.name("an alias class");
      } else {
        return;
      }
    }
  }
  Ref ref() {
    const Token t = in_.peek();
    Ref r{in_.name("a buffer's name"), {}};
    if (!find(r.buffer, true)) in_.failAt(t, fmt::format("unknown buffer '{}'", r.buffer));
    if (in_.accept("[")) {
      r.index = exprs(DType::I64);
      in_.expect("]");
    }
    return r;
  }
  std::string queue() { return in_.accept("async") ? in_.name("a queue") : ""; }

  // ---- declarations
  void params(std::vector<Dim>& dims, std::vector<Param>& buffers, std::vector<bool>& isDim) {
    in_.expect("(");
    do {
      isDim.push_back(in_.accept("dim"));
      if (isDim.back()) {
        Dim d{newName("a dim's name"), 0, 0};
        in_.expect(":");
        d.low = in_.integer("the least value");
        in_.expect("..");
        d.high = in_.integer("the greatest value");
        bindVariable(d.name);
        dims.push_back(std::move(d));
      } else {
        Param p;
        p.mode = in_.accept("out") ? Param::Out : in_.accept("inout") ? Param::InOut : Param::In;
        p.buffer.name = newName("a parameter's name");
        type(p.buffer);
        layout(p.buffer, true);
        bindBuffer(p.buffer);
        buffers.push_back(std::move(p));
      }
    } while (in_.accept(","));
    in_.expect(")");
  }
  void kernel() {
    Kernel k;
    k.name = newName("a kernel's name");
    params(k.dims, k.params, k.isDim);
    k.body = block();
    scope_.clear();
    out_.kernels.push_back(std::move(k));
  }
  void intrin() {
    IntrinDef i;
    const Token t = in_.peek();
    i.name = newName("an instruction's name");
    if (out_.intrin(i.name)) in_.failAt(t, fmt::format("'{}' is declared twice", i.name));
    params(i.dims, i.params, i.isDim);
    i.body = block();
    scope_.clear();
    out_.intrins.push_back(std::move(i));
  }
  void combine() {
    const Token t = in_.peek(1);
    Combine c = parseCombine(in_);
    if (out_.combine(c.name)) in_.failAt(t, fmt::format("'{}' is declared twice", c.name));
    if (reserved.count(c.name))
      in_.failAt(t, fmt::format("expected a combine's name, found the reserved word '{}'", c.name));
    out_.combines.push_back(std::move(c));
  }

  // ---- statements
  Block block() {
    const size_t outer = scope_.size();
    Block out;
    in_.expect("{");
    while (!in_.accept("}")) out.push_back(Stmt{statement(), ""});
    scope_.resize(outer);
    return out;
  }
  decltype(Stmt::kind) statement() {
    if (in_.at("{")) return BlockStmt{block()};
    if (in_.accept("for")) return loop();
    if (in_.accept("if")) {
      If i{expr(DType::Bool), {}};
      i.body = block();
      return i;
    }
    if (in_.accept("alloc")) {
      Alloc a;
      a.buffer.name = newName("a buffer's name");
      type(a.buffer);
      layout(a.buffer, false);
      bindBuffer(a.buffer);
      return a;
    }
    if (in_.accept("copy")) return copy();
    if (in_.accept("sync")) return sync();
    if (in_.accept("intrin")) return call();
    return store();
  }
  For loop() {
    For f;
    f.var = newName("a loop variable");
    in_.expect("in");
    f.extent = expr(DType::I64);
    const Token t = in_.peek();
    const std::string mode = in_.name("a loop mode");
    int m = 0;
    while (m < 6 && name(static_cast<LoopMode>(m)) != mode) m++;
    if (m == 6)
      in_.failAt(
          t, fmt::format("expected serial, parallel, vector, unroll, warp or thread, found '{}'",
                         mode));
    f.mode = static_cast<LoopMode>(m);
    bindVariable(f.var);
    f.body = block();
    scope_.pop_back();
    return f;
  }
  std::string combineName() {
    if (in_.accept("=")) return "";
    for (auto [sign, combine] : signs)
      if (in_.accept(sign)) return std::string(combine);
    const Token t = in_.peek();
    const std::string name = in_.name("a statement");
    if (!in_.at("=")) in_.failAt(t, fmt::format("expected '=' or a combine, found '{}'", name));
    in_.expect("=");
    if (name != "max" && name != "min" && !out_.combine(name))
      in_.failAt(t, fmt::format("unknown combine '{}'", name));
    return name;
  }
  Store store() {
    Store s;
    do s.targets.push_back(ref());
    while (in_.accept(","));
    s.combine = combineName();
    for (const Ref& target : s.targets) {
      if (!s.values.empty()) in_.expect(",");
      s.values.push_back(expr(binding(target.buffer)->type));
    }
    s.stream = in_.accept("stream");
    return s;
  }
  /// The axes stand last in the text, but the maps before them speak of them.
  std::vector<CopyAxis> axesAhead() {
    const size_t start = in_.position();
    while (!in_.at("for")) {
      if (in_.peek().kind == Token::End || in_.at("{") || in_.at("}"))
        in_.fail("'for' with the axes of a copy");
      in_.next();
    }
    const std::vector<CopyAxis> axes = this->axes();
    in_.rewind(start);
    return axes;
  }
  std::vector<CopyAxis> axes() {
    in_.expect("for");
    std::vector<CopyAxis> out;
    do {
      CopyAxis a{newName("an axis"), {}};
      in_.expect("in");
      a.extent = expr(DType::I64);
      out.push_back(std::move(a));
    } while (in_.accept(","));
    return out;
  }
  Copy copy() {
    Copy c;
    const size_t outer = scope_.size();
    for (const CopyAxis& a : axesAhead()) bindVariable(a.var);
    if (in_.accept("@")) {
      in_.expect("l2");  // the only level that printers know
      c.level = "l2";
      in_.expect("<-");
    }
    c.from = ref();
    if (c.level.empty() && in_.accept("<-")) {
      c.to = std::move(c.from);
      c.from = ref();
    }
    scope_.resize(outer);
    c.axes = axes();
    if (in_.accept("fill")) {
      in_.expect("=");
      c.fill = expr(binding(c.from.buffer)->type);
    }
    c.queue = queue();
    return c;
  }
  Sync sync() {
    if (in_.accept("shared")) return {Sync::Shared, "", 0};
    if (in_.accept("grid")) return {Sync::Grid, "", 0};
    if (in_.accept("last")) return {Sync::Last, in_.name("a grid loop's variable"), 0};
    Sync s{Sync::Queue, in_.name("shared, grid, last or a queue"), 0};
    s.pending = in_.integer("how many operations may stay pending");
    return s;
  }
  Intrin call() {
    const Token t = in_.peek();
    Intrin i{in_.name("an instruction"), {}, ""};
    const IntrinDef* def = out_.intrin(i.name);
    if (!def) in_.failAt(t, fmt::format("unknown instruction '{}'", i.name));
    in_.expect("(");
    for (bool isDim : def->isDim) {
      if (!i.args.empty()) in_.expect(",");
      if (isDim)
        i.args.push_back({expr(DType::I64)});
      else
        i.args.push_back({ref()});
    }
    in_.expect(")");
    i.queue = queue();
    return i;
  }

  Lexer in_;
  Names names_;
  std::vector<Binding> scope_;
  KernelModule out_;
};

}  // namespace

KernelModule parseKernels(std::string_view text, const std::string& file) {
  return Parser(text, file).file();
}

}  // namespace tektite
