#include "emit/c_source.h"

#include <algorithm>

#include "emit/c_body.h"
#include "emit/c_intrinsics.h"
#include "emit/grids.h"
#include "emit/prepare.h"
#include "ir/kernel_walk.h"
#include "ops/math/math.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace c_text {
namespace {

std::string commented(const std::string& comment) {
  std::string text;
  for (std::string_view c = comment; !c.empty();) {
    const size_t end = c.find('\n');
    text += fmt::format("// {}\n", c.substr(0, end));
    c = end == std::string_view::npos ? "" : c.substr(end + 1);
  }
  return text;
}

class KernelWriter {
 public:
  KernelWriter(const KernelModule& module, const Kernel& kernel, const Target& target,
               Numerics numerics, const Language& language)
      : module_(module),
        kernel_(kernel),
        target_(target),
        language_(language),
        body_(expandFunctions(kernel.body, numerics == Numerics::Fast)) {
    out_.symbol = kernel.name;
    out_.needs = needsOf(kernel);
    out_.helpers.push_back(typesOf(language));
    for (const Dim& d : kernel.dims) out_.dims.push_back(d.name);
    const bool strict = numerics == Numerics::Strict;  // a * b + c isn't one operation
    if (language.kind == Language::OpenCl) {
      out_.options = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";
      if (strict) out_.helpers.emplace_back("#pragma OPENCL FP_CONTRACT OFF\n");
    } else if (strict) {
      out_.options = "-fmad=false";
    }
  }

  Artifact write() {
    countLists(body_);
    walk(body_, out_.launches);
    return std::move(out_);
  }

 private:
  struct Outer {
    std::string name;
    Interval range;
    Expr extent;
  };

  /// Grids that stand together, and what one thread does alone between them, are one list: a launch.
  void walk(const Block& block, std::vector<Launch>& to) {
    const auto together = [&](const std::vector<Grid>& grids) {
      if (!waits(grids)) return list(grids, to);
      for (const Grid& g : grids) list({g}, to);
    };
    forEachRun(block, together, [&](const Stmt& s) {
      if (const For* f = s.as<For>()) {
        Ranges ranges = rangesNow();
        const Interval in = boundsOf(f->extent, ranges);
        Launch loop{Launch::Loop, "", {}, f->extent, 1, f->var, {}};
        outer_.push_back({f->var, {0, std::max<int64_t>(0, in.high - 1)}, f->extent});
        walk(f->body, loop.body);
        outer_.pop_back();
        to.push_back(std::move(loop));
      } else if (const If* i = s.as<If>()) {
        Launch when{Launch::When, "", {}, i->condition, 1, "", {}};
        walk(i->body, when.body);
        to.push_back(std::move(when));
      } else if (const BlockStmt* b = s.as<BlockStmt>()) {
        walk(b->body, to);
      }
    });
  }

  /// OpenCL's CPU compilers get barriers in branches wrong (PoCL 3.1 runs what follows one for threads that its condition excludes), so
  /// there grids of teams that stand together are launches of their own.
  bool waits(const std::vector<Grid>& grids) const {
    return language_.kind == Language::OpenCl && grids.size() > 1 &&
           std::any_of(grids.begin(), grids.end(),
                       [&](const Grid& g) { return teamOf(g.body, target_) > 0; });
  }

  void countLists(const Block& block) {
    std::vector<Launch> launches;
    counting_ = true;
    walk(block, launches);
    counting_ = false;
    lists_ = entries_;
    entries_ = 0;
  }

  Ranges rangesNow() const {
    Ranges ranges;
    for (const Dim& d : kernel_.dims) ranges[d.name] = {d.low, d.high};
    for (const Outer& o : outer_) ranges[o.name] = o.range;
    return ranges;
  }

  void list(const std::vector<Grid>& grids, std::vector<Launch>& to) {
    ++entries_;
    if (counting_) return;
    int threads = 0;
    for (const Grid& g : grids) threads = std::max(threads, teamOf(g.body, target_));
    Launch launch{Launch::Entry, "", {}, Expr(0), std::max(threads, 1), "", {}};
    launch.entry = lists_ == 1 ? kernel_.name : fmt::format("{}_{}", kernel_.name, entries_);
    for (const Outer& o : outer_) launch.outer.push_back(o.name);
    for (const Grid& g : grids) launch.count = launch.count + g.tiles();
    writeEntry(grids, threads, launch);
    to.push_back(std::move(launch));
  }

  struct Slot {
    const Buffer* buffer;
    bool isInput, isMain;
  };
  std::vector<Slot> slots() const {
    std::vector<Slot> out;
    for (const Param& p : kernel_.params) out.push_back({&p.buffer, p.mode == Param::In, false});
    for (const Buffer* b : mainAllocsOf(body_)) out.push_back({b, false, true});
    return out;
  }

  std::string parameters(bool meets) const {
    std::string out;
    const auto add = [&](const std::string& p) { out += (out.empty() ? "" : ", ") + p; };
    for (const Slot& s : slots()) {
      const bool alone = s.buffer->alias.empty() && !(meets && s.isMain);
      add(fmt::format(
          "{}{}{}*{} {}", language_.global, s.isInput ? "const " : "", memoryType(s.buffer->type),
          alone ? fmt::format(" {}", language_.restricted) : "", identifier(s.buffer->name)));
    }
    if (out_.needs.counters) add(fmt::format("{}int* counters", language_.global));
    for (const Dim& d : kernel_.dims) add(fmt::format("i64 {}_", identifier(d.name)));
    for (const Outer& o : outer_) add(fmt::format("i64 {}_", identifier(o.name)));
    return out;
  }

  /// Dims and the host's variables come in 64 bits; where an int has room they are one.
  void bindNumber(Body& body, const std::string& name, Interval range) {
    const std::string local = identifier(name);
    const bool narrow = range.low >= INT32_MIN && range.high <= INT32_MAX;
    body.line(fmt::format("const {0} {1} = {2}{1}_;", narrow ? "int" : "i64", local,
                          narrow ? "(int)" : ""));
    body.bind(name, {local, Value::kAtom, DType::I64, narrow}, range);
  }

  void writeEntry(const std::vector<Grid>& grids, int threads, Launch& launch) {
    const bool meets =
        std::any_of(grids.begin(), grids.end(), [](const Grid& g) { return lastIn(g.body); });
    Body body(language_, module_, target_, 1);
    body.reserve(kernel_);
    for (const Dim& d : kernel_.dims) bindNumber(body, d.name, {d.low, d.high});
    for (const Outer& o : outer_) bindNumber(body, o.name, o.range);
    for (const Slot& s : slots()) {
      Place p{identifier(s.buffer->name), s.buffer->type, s.buffer->shape,
              s.buffer->strides.empty() ? rowMajor(s.buffer->shape) : s.buffer->strides};
      if (s.buffer->type == DType::F64) body.helper("f64");
      p.align = 16;
      p.isMain = true;
      body.add(s.buffer->name, std::move(p));
    }
    const Interval all = body.range(launch.count);
    const std::string type = all.high <= INT32_MAX ? "int" : "i64";
    body.line(fmt::format("const {} tile = {};", type, threads ? language_.tile : language_.item));
    if (threads) {
      body.line(fmt::format("const int thread = {};", language_.thread));
      if (hasWarps(grids))
        body.line(fmt::format("const int warp = thread / {0}, lane = thread % {0};", target_.warp));
    }
    Expr before = 0;
    for (size_t i = 0; i < grids.size(); i++) {
      const Expr end = before + grids[i].tiles();
      writeGrid(body, grids[i], threads, before, end, i, grids.size());
      before = end;
    }
    for (const std::string& h : body.helpers())
      if (std::find(out_.helpers.begin(), out_.helpers.end(), h) == out_.helpers.end())
        out_.helpers.push_back(h);
    if (!out_.text.empty()) out_.text += "\n";
    out_.text += entries_ == 1 ? commented(kernel_.comment) : "";
    out_.text += fmt::format("{} {}({}) {{\n{}{}}}\n", language_.entry, launch.entry,
                             parameters(meets), body.sharedDeclarations(), body.text());
    if (body.sharesDynamically()) launch.sharedBytes = body.sharedBytes();
  }

  static bool hasWarps(const std::vector<Grid>& grids) {
    const std::function<bool(const Block&)> any = [&](const Block& block) {
      return std::any_of(block.begin(), block.end(), [&](const Stmt& s) {
        const For* f = s.as<For>();
        if (f && f->mode == LoopMode::Warp) return true;
        if (f) return any(f->body);
        if (const If* i = s.as<If>()) return any(i->body);
        const BlockStmt* b = s.as<BlockStmt>();
        return b && any(b->body);
      });
    };
    return std::any_of(grids.begin(), grids.end(), [&](const Grid& g) { return any(g.body); });
  }

  /// Tiles before..end of the list are this grid's.
  void writeGrid(Body& body, const Grid& g, int threads, const Expr& before, const Expr& end,
                 size_t number, size_t of) {
    for (const std::string& c : {g.comment})
      if (!c.empty()) body.line("// " + c);
    const bool exact = of == 1 && threads > 0;
    const std::string limit = body.index(end);
    const std::string from = number ? fmt::format("tile >= {} && ", body.index(before)) : "";
    const bool isTeam = teamOf(g.body, target_) > 0;
    const std::string single = threads > 0 && !isTeam ? " && thread == 0" : "";
    body.open(exact && single.empty() ? ""
                                      : fmt::format("if ({}tile < {}{})", from, limit, single));
    std::string rest = "tile";
    if (number) {
      body.line(fmt::format("const int at = tile - {};", body.index(before)));
      rest = "at";
    }
    int64_t counters = 0;
    for (size_t i = g.loops.size(); i-- > 0;) {
      const For& f = *g.loops[i];
      const Interval in = body.range(f.extent);
      if (isConstant(f.extent, 1)) {
        body.constant(f.var, 0);
        continue;
      }
      const std::string name = identifier(f.var), extent = body.emit(f.extent).at(Value::kAtom);
      const bool outermost = std::all_of(g.loops.begin(), g.loops.begin() + i,
                                         [](const For* l) { return isConstant(l->extent, 1); });
      body.line(fmt::format("const int {} = {}{};", name, rest, outermost ? "" : " % " + extent));
      if (!outermost) {
        const std::string next = fmt::format("rest{}", i);
        body.line(fmt::format("const int {} = {} / {};", next, rest, extent));
        rest = next;
      }
      body.bind(f.var, {name, Value::kAtom, DType::I64, true},
                {0, std::max<int64_t>(0, in.high - 1)});
    }
    if (lastIn(g.body)) {
      Expr counter = 0;
      int64_t rows = 1;
      for (size_t i = 0; i + 1 < g.loops.size(); i++) {
        counter = counter * g.loops[i]->extent + body.now(var(g.loops[i]->var));
        rows *= std::max<int64_t>(1, body.range(g.loops[i]->extent).high);
      }
      body.setLast(counter + Expr(counters_), g.loops.back()->extent);
      counters = rows;
    }
    counters_ += counters;
    body.setTeam(isTeam ? threads : 0, g.body);
    body.block(g.body);
    body.finish();
    body.close();
  }

  const KernelModule& module_;
  const Kernel& kernel_;
  const Target& target_;
  const Language& language_;
  const Block body_;
  Artifact out_;
  std::vector<Outer> outer_;
  bool counting_ = false;
  int entries_ = 0, lists_ = 0;
  int64_t counters_ = 0;
};

}  // namespace
}  // namespace c_text

CSupport supportsC(const KernelModule&, const Kernel& kernel, const Language& language) {
  CSupport answer;
  Path path;
  walk(kernel.body, path,
       {[&](const Stmt& s, Path&) {
          const Intrin* i = s.as<Intrin>();
          if (i && !findIntrinsic(language, i->name)) answer = {false, "intrin " + i->name};
        },
        nullptr});
  return answer;
}

Artifact emitC(const KernelModule& module, const Kernel& kernel, const Target& target,
               Numerics numerics, const Language& language) {
  return c_text::KernelWriter(module, kernel, target, numerics, language).write();
}

}  // namespace tektite
