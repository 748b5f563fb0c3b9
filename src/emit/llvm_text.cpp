#include "emit/llvm_text.h"

#include <algorithm>
#include <set>

#include "emit/grids.h"
#include "emit/llvm_body.h"
#include "emit/prepare.h"
#include "ir/kernel_walk.h"
#include "ops/math/math.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace llvm_text {
namespace {

/// MXCSR: subnormal operands are zero (bit 6), and results (bit 15).
constexpr int kSubnormalsAreZero = 0x8040;

/// Does it add products of floats up? Of these a subnormal is lost in the sum's rounding, but x86 takes 150 cycles for each.
bool sumsProducts(const Block& body) {
  bool found = false;
  Path path;
  walk(body, path,
       {[&](const Stmt& s, Path&) {
          const Store* store = s.as<Store>();
          if (!store || store->combine != "sum") return;
          for (const Expr& value : store->values) {
            const Apply* a = value.as<Apply>();
            found |= a && a->op == Op::Mul && isFloat(value.type());
          }
        },
        {}});
  return found;
}

/// Vectors of the largest array that is kept in registers.
int64_t largestTile(const Block& body, const Target& target) {
  int64_t most = 0;
  Path path;
  walk(body, path,
       {[&](const Stmt& s, Path&) {
          if (const Alloc* a = s.as<Alloc>(); a && a->buffer.space == "reg")
            most = std::max(most, bytesOf(a->buffer) / target.vectorBytes);
        },
        {}});
  return most;
}

void control(FunctionText& text, std::string_view instruction, std::string_view place) {
  text.call("", "void", fmt::format("llvm.x86.sse.{}", instruction), fmt::format("ptr {}", place),
            "ptr");
}
/// From here to `subnormalsAsBefore`.
void subnormalsAreZero(FunctionText& text) {
  text.line("%.control = alloca [2 x i32], align 4");
  text.line("%.control.now = getelementptr i32, ptr %.control, i64 1");
  control(text, "stmxcsr", "%.control");
  const std::string before = text.set("control", "load i32, ptr %.control, align 4");
  text.line("store i32 {}, ptr %.control.now, align 4",
            text.set("control", "or i32 {}, {}", before, kSubnormalsAreZero));
  control(text, "ldmxcsr", "%.control.now");
}
void subnormalsAsBefore(FunctionText& text) { control(text, "ldmxcsr", "%.control"); }

/// Writes one kernel: a function for each grid, and the entry that deals the tiles to them.
class KernelWriter {
 public:
  KernelWriter(const KernelModule& module, const Kernel& kernel, const Target& target,
               FastMath mode)
      : module_(module),
        kernel_(kernel),
        target_(target),
        mode_(mode),
        // in `fast` a body tells the steps of functions apart from what may be rearranged
        body_(mode == FastMath::Fast ? kernel.body : expandFunctions(kernel.body, false)),
        entry_(declarations_),
        driver_(entry_, module, target, mode) {}

  Artifact write();

 private:
  struct Slot {
    const Buffer* buffer;
    bool isInput, isMain;
  };
  void bindEntry();
  void run(const Block&);
  void list(const std::vector<Grid>&);
  Value tilesOf(const Grid&);
  std::string gridFunction(const Grid&);
  void tile(Body&, FunctionText&, const Grid&, const std::string& begin, const std::string& end);
  std::string parameters(bool shared) const;
  std::string arguments() const;
  Place placeOf(const Slot&) const;
  void barrier();

  const KernelModule& module_;
  const Kernel& kernel_;
  const Target& target_;
  const FastMath mode_;
  const Block body_;
  Declarations declarations_;
  FunctionText entry_;
  std::string first_;  ///< where a dealer says at which tile to begin
  Body driver_;
  std::vector<Slot> slots_;
  std::vector<std::pair<std::string, Interval>>
      outer_;  ///< loop variables around the grids, outermost first
  std::string functions_;
  int grids_ = 0;
  KernelNeeds needs_;
  std::optional<int64_t> tilesSince_ = 0;  ///< of the list being written
};

Place KernelWriter::placeOf(const Slot& s) const {
  const Buffer& b = *s.buffer;
  Place p{b.name, b.type, b.shape, b.strides.empty() ? rowMajor(b.shape) : b.strides, "%" + b.name};
  p.align = std::max<int64_t>(b.align, s.isMain ? 64 : bytes(b.type));
  p.bit = bitOf(b.alias.empty() ? b.name : "alias " + b.alias);
  return p;
}

/// `shared`: other threads write partial results that the last tile reads, so main buffers promise nothing.
std::string KernelWriter::parameters(bool shared) const {
  std::string out;
  for (const Slot& s : slots_) {
    const Place p = placeOf(s);
    out += "ptr ";
    if (s.buffer->alias.empty() && !(shared && s.isMain))
      out += s.isInput ? "noalias readonly " : "noalias ";
    int64_t size = bytes(p.type);
    for (size_t i = 0; i < p.shape.size() && size > 0; i++) {
      const auto extent = asInteger(p.shape[i]);
      size = extent && s.buffer->strides.empty() ? size * *extent : 0;
    }
    if (size > 0) out += fmt::format("dereferenceable({}) ", size);
    out += fmt::format("align {} {}, ", p.align, p.pointer);
  }
  for (const Dim& d : kernel_.dims) out += fmt::format("i64 %{}, ", d.name);
  for (const auto& [name, range] : outer_) out += fmt::format("i64 %{}, ", name);
  return out + "ptr noalias align 64 %.scratch, ptr %.counters, i64 %.begin, i64 %.end";
}

std::string KernelWriter::arguments() const {
  std::string out;
  for (const Slot& s : slots_) out += fmt::format("ptr %{}, ", s.buffer->name);
  for (const Dim& d : kernel_.dims) out += fmt::format("i64 %{}, ", d.name);
  return out;
}

Value KernelWriter::tilesOf(const Grid& g) {
  const Expr now = driver_.now(g.tiles());
  const auto known = asInteger(now);
  tilesSince_ = known && tilesSince_ ? std::optional(*tilesSince_ + *known) : std::nullopt;
  return driver_.emit(now);
}

std::string attributes(const Target& target) {
  if (!target.triple.starts_with("x86_64")) return "nounwind";
  const int bits = target.vectorBytes * 8;
  return fmt::format("nounwind \"prefer-vector-width\"=\"{0}\" \"min-legal-vector-width\"=\"{0}\"",
                     bits);
}

std::string KernelWriter::gridFunction(const Grid& g) {
  const std::string name = fmt::format("{}.tiles{}", kernel_.name, ++grids_);
  FunctionText text(declarations_);
  Body body(text, module_, target_, mode_);
  for (const Dim& d : kernel_.dims) body.bind(d.name, {"%" + d.name, DType::I64}, {d.low, d.high});
  for (const auto& [variable, range] : outer_)
    body.bind(variable, {"%" + variable, DType::I64}, range);
  for (const Slot& s : slots_) body.add(placeOf(s));
  const std::string loop = text.fresh("tile"), next = text.fresh("tile.next"),
                    done = text.fresh("tile.end");
  const std::string before = text.fresh("tiles");
  const bool sums = sumsProducts(g.body);
  const bool zeroes = sums && mode_ != FastMath::None && target_.triple.starts_with("x86_64");
  if (zeroes) subnormalsAreZero(text);
  text.branch(text.set("any", "icmp slt i64 %.begin, %.end"), before, done);
  text.start(before);
  // extents are the same for all tiles
  std::vector<Value> extents;
  for (const For* f : g.loops) extents.push_back(body.emit(f->extent));
  text.jump(loop);
  text.start(loop);
  const std::string tile =
      text.set("tile", "phi i64 [ %.begin, %{} ], [ %.tile.after, %{} ]", before, next);
  std::string rest = tile;
  Expr counter = 0;
  for (size_t i = g.loops.size(); i-- > 0;) {
    const For& f = *g.loops[i];
    const int64_t high = body.highest(f.extent);
    if (isConstant(f.extent, 1)) {
      body.constant(f.var, 0);
      continue;
    }
    std::string at = rest;
    if (i > 0) {
      at = text.set(f.var, "urem i64 {}, {}", rest, extents[i].text);
      rest = text.set("rest", "udiv i64 {}, {}", rest, extents[i].text);
    }
    body.bind(f.var, {at, DType::I64}, {0, std::max<int64_t>(0, high - 1)});
    if (!asInteger(f.extent)) body.assume(lt(var(f.var), f.extent));
  }
  const bool meets = lastIn(g.body);
  if (meets) {
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < g.loops.size(); i++) {
      counter = counter * g.loops[i]->extent + body.now(var(g.loops[i]->var));
      rows *= std::max<int64_t>(1, body.highest(g.loops[i]->extent));
    }
    body.setLast({g.loops.back()->extent, counter + Expr(needs_.counters), next});
    needs_.counters += rows;
  }
  body.block(g.body);
  text.jump(next);
  text.start(next);
  text.line("%.tile.after = add nuw nsw i64 {}, 1", tile);
  text.branch(text.set("more", "icmp slt i64 %.tile.after, %.end"), loop, done);
  text.start(done);
  body.fence();
  if (zeroes) subnormalsAsBefore(text);
  text.line("ret void");
  needs_.scratchBytes = std::max(needs_.scratchBytes, body.scratchPeak());
  const bool full = sums && 2 * largestTile(g.body, target_) > target_.vectorRegisters;
  functions_ += text.text(fmt::format("define internal void @{}({}) {}{}", name, parameters(meets),
                                      attributes(target_),
                                      full ? fmt::format(" \"{}\"", kSumsFillRegisters) : "")) +
                "\n";
  return name;
}

/// Grids that stand together are one list, whose tiles are dealt in contiguous runs.
void KernelWriter::list(const std::vector<Grid>& grids) {
  std::vector<Value> sizes;
  std::vector<std::string> names;
  std::string total = "0", outer;
  for (const Grid& g : grids) {
    sizes.push_back(tilesOf(g));
    names.push_back(gridFunction(g));
    total = total == "0" ? sizes.back().text
                         : entry_.set("tiles", "add nsw i64 {}, {}", total, sizes.back().text);
  }
  for (const auto& [variable, range] : outer_)
    outer += fmt::format("i64 {}, ", driver_.emit(driver_.now(var(variable))).text);
  const std::string deal = entry_.fresh("deal"), tiles = entry_.fresh("dealt"),
                    done = entry_.fresh("dealt.end");
  if (first_.empty()) first_ = entry_.allocate("first", "i64", 1, 8);
  const std::string before = entry_.current();
  entry_.branch("%.alone", tiles, deal);
  entry_.start(deal);
  const std::string count =
      entry_.set("count", "call i64 %.deal(ptr %.dealer, i64 {}, ptr {})", total, first_);
  const std::string dealt = entry_.set("low", "load i64, ptr {}, align 8", first_);
  entry_.branch(entry_.set("any", "icmp sgt i64 {}, 0", count), tiles, done);
  entry_.start(tiles);
  const std::string low = entry_.set("low", "phi i64 [ 0, %{} ], [ {}, %{} ]", before, dealt, deal),
                    mine = entry_.set("mine", "phi i64 [ {}, %{} ], [ {}, %{} ]", total, before,
                                      count, deal),
                    high = entry_.set("high", "add nsw i64 {}, {}", low, mine);
  const auto clamp = [&](const std::string& at, const std::string& before,
                         const std::string& size) {
    const std::string off =
        before == "0" ? at : entry_.set("from", "sub nsw i64 {}, {}", at, before);
    const std::string up =
        entry_.call("from", "i64", "llvm.smax.i64", fmt::format("i64 {}, i64 0", off), "i64, i64");
    return entry_.call("from", "i64", "llvm.smin.i64", fmt::format("i64 {}, i64 {}", up, size),
                       "i64, i64");
  };
  std::string sum = "0";
  for (size_t i = 0; i < grids.size(); i++) {
    const std::string begin = grids.size() == 1 ? low : clamp(low, sum, sizes[i].text);
    const std::string end = grids.size() == 1 ? high : clamp(high, sum, sizes[i].text);
    entry_.line("call void @{}({}{}ptr %.scratch, ptr %.counters, i64 {}, i64 {})", names[i],
                arguments(), outer, begin, end);
    if (i + 1 < grids.size())
      sum = sum == "0" ? sizes[i].text
                       : entry_.set("before", "add nsw i64 {}, {}", sum, sizes[i].text);
  }
  entry_.branch("%.alone", done, deal);
  entry_.start(done);
}

void KernelWriter::barrier() {
  needs_.tiles = needs_.tiles < 0 || !tilesSince_ ? -1 : std::max(needs_.tiles, *tilesSince_);
  tilesSince_ = 0;
}

void KernelWriter::run(const Block& block) {
  const auto together = [&](const std::vector<Grid>& grids) {
    for (const Grid& g : grids)
      if (!g.comment.empty()) entry_.comment(g.comment);
    list(grids);
  };
  forEachRun(block, together, [&](const Stmt& s) {
    if (const For* f = s.as<For>()) {
      outer_.push_back({f->var, {0, std::max<int64_t>(0, driver_.highest(f->extent) - 1)}});
      driver_.loop(f->var, driver_.now(f->extent), 0, [&] { run(f->body); });
      outer_.pop_back();
    } else if (const If* i = s.as<If>()) {
      driver_.branch(driver_.now(i->condition), [&] { run(i->body); });
    } else if (const BlockStmt* b = s.as<BlockStmt>()) {
      run(b->body);
    } else {
      entry_.line("call void %.barrier(ptr %.dealer)");
      barrier();
    }
  });
}

void KernelWriter::bindEntry() {
  entry_.line("%.deal = load ptr, ptr %.dealer, align 8");
  entry_.line("%.alone = icmp eq ptr %.deal, null");
  entry_.line("%.barrier = load ptr, ptr {}, align 8",
              entry_.set("slot", "getelementptr ptr, ptr %.dealer, i64 1"));
  const std::vector<const Buffer*> mains = mainAllocsOf(body_);
  for (const Param& p : kernel_.params) slots_.push_back({&p.buffer, p.mode == Param::In, false});
  for (const Buffer* b : mains) slots_.push_back({b, false, true});
  int64_t at = 0;
  const auto pointer = [&](const std::string& name) {
    const std::string from = entry_.set("slot", "getelementptr ptr, ptr %.buffers, i64 {}", at++);
    entry_.line("%{} = load ptr, ptr {}, align 8", name, from);
  };
  for (const Slot& s : slots_) pointer(s.buffer->name);
  const bool counts = toText(kernel_).find("sync last") != std::string::npos;
  if (counts) pointer(".counters");
  for (size_t i = 0; i < kernel_.dims.size(); i++) {
    const Dim& d = kernel_.dims[i];
    entry_.line("%{} = load i64, ptr {}, align 8", d.name,
                entry_.set("slot", "getelementptr i64, ptr %.dims, i64 {}", i));
    driver_.bind(d.name, {"%" + d.name, DType::I64}, {d.low, d.high});
  }
  for (const Slot& s : slots_) driver_.add(placeOf(s));
  for (const Buffer* b : mains) {
    int64_t size = bytes(b->type);
    for (const Expr& e : b->shape) size *= std::max<int64_t>(0, driver_.highest(e));
    needs_.mainAllocs.push_back(size);
  }
  if (!counts) entry_.line("%.counters = getelementptr i8, ptr %.buffers, i64 0");
}

Artifact KernelWriter::write() {
  bindEntry();
  run(body_);
  barrier();
  entry_.line("ret void");
  const std::string header =
      fmt::format("define void @{}(ptr %.buffers, ptr %.dims, ptr %.scratch, ptr %.dealer) {}",
                  kernel_.name, attributes(target_));
  std::string text;
  for (std::string_view c = kernel_.comment; !c.empty();) {
    const size_t end = c.find('\n');
    text += fmt::format("; {}\n", c.substr(0, end));
    c = end == std::string_view::npos ? "" : c.substr(end + 1);
  }
  text += functions_ + entry_.text(header) + "\n";
  for (const std::string& d : declarations_) text += d + "\n";
  text += "!0 = !{i32 1}\n";
  return {kernel_.name, text, needs_};
}

}  // namespace
}  // namespace llvm_text

Artifact emitLlvm(const KernelModule& module, const Kernel& kernel, const Target& target,
                  FastMath mode) {
  return llvm_text::KernelWriter(module, kernel, target, mode).write();
}

}  // namespace tektite
