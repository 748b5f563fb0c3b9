#include <algorithm>
#include <memory>

#include "ir/assumptions.h"
#include "ir/facts.h"
#include "ir/kernel_walk.h"
#include "ir/mentions.h"
#include "lower/kernel_pass.h"
#include "lower/kernel_rewrite.h"

namespace tektite {
namespace {

/// Rebuilds a kernel with what its loops and guards say applied to its expressions; drops ifs that are decided, loops that run once
/// or never, and what is left empty.
class Simplifier {
 public:
  explicit Simplifier(const Kernel& k) {
    for (const Dim& d : k.dims) {
      ranges_[d.name] = {d.low, d.high};
      known_.range(d.name, d.low, d.high);
    }
  }

  Block block(const Block& in, bool insideGrid) {
    Block out;
    for (const Stmt& s : in)
      for (Stmt& t : statement(s, insideGrid)) out.push_back(std::move(t));
    return out;
  }

 private:
  Expr expr(const Expr& e) {
    if (!facts_) facts_ = std::make_unique<Facts>(ranges_, assumed_);
    return facts_->simplify(once_.empty() ? e : substitute(e, once_));
  }

  /// Does it speak of a thread? Registers are indexed by their owner: it must not be replaced by what a guard says it is.
  bool ofThreads(const Expr& e) const {
    for (const std::string& v : freeVars(e))
      if (std::find(threads_.begin(), threads_.end(), v) != threads_.end()) return true;
    return false;
  }

  /// What is said inside `f`, with a condition or a loop's range known.
  template <class F>
  Block knowing(const Expr& condition, F&& f) {
    const size_t mark = known_.mark();
    known_.assume(condition);
    const size_t before = assumed_.size();
    if (!ofThreads(condition)) assumed_.push_back(condition);
    facts_.reset();
    Block out = f();
    known_.rewind(mark);
    assumed_.resize(before);
    facts_.reset();
    return out;
  }

  Block statement(const Stmt& s, bool insideGrid) {
    Stmt now = mapStmtExprs(s, [this](const Expr& e) { return expr(e); });
    if (now.as<For>()) return loop(now, insideGrid);
    if (const If* i = now.as<If>()) {
      if (known_.proves(i->condition, false)) return {};
      if (known_.proves(i->condition)) return spliced(s, block(i->body, insideGrid));
      Block body = knowing(i->condition, [&] { return block(i->body, insideGrid); });
      if (body.empty()) return {};
      return {withBody(now, std::move(body))};
    }
    if (const BlockStmt* b = now.as<BlockStmt>()) return spliced(s, block(b->body, insideGrid));
    return {std::move(now)};
  }

  Block loop(const Stmt& now, bool insideGrid) {
    const For& f = *now.as<For>();
    const bool grid = !insideGrid && f.mode == LoopMode::Parallel,
               team = f.mode == LoopMode::Warp || f.mode == LoopMode::Thread;
    if (known_.proves(le(f.extent, Expr(0)))) return {};
    if (!grid && !team && isConstant(f.extent, 1)) {
      once_[f.var] = Expr(0);
      Block body = block(f.body, insideGrid);
      once_.erase(f.var);
      return spliced(now, std::move(body));
    }
    const size_t mark = known_.mark();
    known_.loop(f.var, f.extent);
    const auto constant = asInteger(f.extent);
    const Interval extent = constant ? Interval{*constant, *constant} : boundsOf(f.extent, ranges_);
    const auto outer =
        ranges_.find(f.var) == ranges_.end() ? std::nullopt : std::optional(ranges_[f.var]);
    ranges_[f.var] = {0, std::max<int64_t>(team ? 1 : 0, extent.high - 1)};
    if (team) threads_.push_back(f.var);
    Block body = knowing(lt(var(f.var), f.extent), [&] { return gridBody(f, grid, insideGrid); });
    if (team) threads_.pop_back();
    if (outer)
      ranges_[f.var] = *outer;
    else
      ranges_.erase(f.var);
    facts_.reset();
    known_.rewind(mark);
    if (body.empty()) return {};
    if (const Block* only = ofFirstLane(f, body)) return spliced(now, *only);
    return {withBody(now, std::move(body))};
  }

  /// What a vector loop does, where only its first lane does anything: the tail of one element. It speaks of that lane as 0 already.
  const Block* ofFirstLane(const For& f, const Block& body) {
    const If* guard = f.mode == LoopMode::Vector && body.size() == 1 ? body[0].as<If>() : nullptr;
    if (!guard) return nullptr;
    const size_t mark = known_.mark();
    known_.loop(f.var, f.extent);
    known_.assume(guard->condition);
    const bool first = known_.proves(le(var(f.var), Expr(0)));
    known_.rewind(mark);
    return first && !mentions(guard->body, f.var) ? &guard->body : nullptr;
  }
  static bool mentions(const Block& block, const std::string& name) {
    bool found = false;
    Path path;
    walk(block, path,
         {[&](const Stmt& s, Path&) {
            eachExpr(s, [&](const Expr& e) { found |= tektite::mentions(e, name); });
          },
          nullptr});
    return found;
  }

  /// Loops of a grid stay, also those that run once: they are its shape.
  Block gridBody(const For& f, bool grid, bool insideGrid) {
    const For* inner = f.body.size() == 1 ? f.body[0].as<For>() : nullptr;
    const bool stillGrid = grid && inner && inner->mode == LoopMode::Parallel;
    return block(f.body, (insideGrid || grid) && !stillGrid);
  }

  /// Statements in place of the one that held them; in a block of their own where they declare names.
  static Block spliced(const Stmt& from, Block body) {
    if (body.empty()) return {};
    for (const Stmt& s : body)
      if (s.as<Alloc>()) return {Stmt{BlockStmt{std::move(body)}, from.comment}};
    if (body[0].comment.empty()) body[0].comment = from.comment;
    return body;
  }

  Ranges ranges_;
  std::vector<Expr> assumed_;
  std::vector<std::string> threads_;
  std::unique_ptr<Facts> facts_;
  Assumptions known_;
  std::unordered_map<std::string, Expr> once_;
};

/// Without the stores to buffers that nothing reads, and those buffers.
Block withoutDead(const Block& in, const std::vector<std::string>& dead) {
  const auto isDead = [&](const std::string& name) {
    return std::find(dead.begin(), dead.end(), name) != dead.end();
  };
  Block out;
  for (const Stmt& s : in) {
    if (const Buffer* b = allocOf(s); b && isDead(b->name)) continue;
    if (const Store* t = s.as<Store>();
        t && std::all_of(t->targets.begin(), t->targets.end(),
                         [&](const Ref& r) { return isDead(r.buffer); }))
      continue;
    if (const Copy* c = s.as<Copy>(); c && c->to && isDead(c->to->buffer)) continue;
    if (const Block* body = bodyOf(s)) {
      Block inner = withoutDead(*body, dead);
      if (!inner.empty()) out.push_back(withBody(s, std::move(inner)));
      continue;
    }
    out.push_back(s);
  }
  return out;
}

/// The allocated buffers of a kernel that nothing reads but what is stored to themselves.
std::vector<std::string> deadBuffers(const Kernel& k, const KernelModule& module) {
  std::vector<std::string> allocated, used;
  Path path;
  walk(k.body, path,
       {[&](const Stmt& s, Path&) {
          if (const Buffer* b = allocOf(s)) allocated.push_back(b->name);
          const Store* t = s.as<Store>();
          Touched touched = touchedBy(bodyOf(s) ? Block{withBody(s, {})} : Block{s}, module);
          for (const std::string& name : touched.reads) {
            const bool onlyItself =
                t && std::all_of(t->targets.begin(), t->targets.end(),
                                 [&](const Ref& r) { return r.buffer == name; });
            if (!onlyItself) used.push_back(name);
          }
          if (t && t->targets.size() > 1)  // of several targets all are needed, or none
            for (const Ref& r : t->targets) used.push_back(r.buffer);
          if (const Copy* c = s.as<Copy>(); c && c->to && !c->queue.empty())
            used.push_back(c->to->buffer);  // it counts in its queue
          if (s.as<Intrin>())
            for (const std::string& name : touched.writes) used.push_back(name);
        },
        nullptr});
  std::erase_if(allocated, [&](const std::string& name) {
    return std::find(used.begin(), used.end(), name) != used.end() ||
           std::any_of(k.params.begin(), k.params.end(),
                       [&](const Param& p) { return p.buffer.name == name; });
  });
  return allocated;
}

Kernel simplifyKernel(const Kernel& in, const KernelModule& module) {
  Kernel out = in;
  out.body = Simplifier(in).block(in.body, false);
  for (auto dead = deadBuffers(out, module); !dead.empty(); dead = deadBuffers(out, module))
    out.body = withoutDead(out.body, dead);
  return out;
}

const KernelPass pass{"simplify-kernel",
                      "decide ifs and loops, simplify indices, drop buffers that nothing reads",
                      simplifyKernel};

}  // namespace
}  // namespace tektite
