#include "emit/llvm_body.h"

#include <algorithm>

#include "emit/prepare.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite::llvm_text {

uint64_t writtenBy(const Block& block, const std::function<uint64_t(const std::string&)>& bit) {
  uint64_t bits = 0;
  for (const Stmt& s : block)
    std::visit(overloaded{[&](const BlockStmt& b) { bits |= writtenBy(b.body, bit); },
                          [&](const For& f) { bits |= writtenBy(f.body, bit); },
                          [&](const If& i) { bits |= writtenBy(i.body, bit); }, [](const Alloc&) {},
                          [&](const Store& t) {
                            for (const Ref& r : t.targets) bits |= bit(r.buffer);
                          },
                          [&](const Copy& c) {
                            if (c.to) bits |= bit(c.to->buffer);
                          },
                          [&](const Sync&) { bits = ~uint64_t{0}; },
                          [&](const Intrin& i) {
                            for (const IntrinArg& a : i.args)
                              if (const Ref* r = std::get_if<Ref>(&a.value)) bits |= bit(r->buffer);
                          }},
               s.kind);
  return bits;
}

void Body::bind(const std::string& variable, const Value& value, Interval range) {
  variables_[variable] = value;
  ranges_[variable] = range;
  facts_.reset();
}

void Body::block(const Block& statements) {
  const int64_t top = scratchTop_;
  for (const Stmt& s : statements) statement(s);
  scratchTop_ = top;
}

void Body::statement(const Stmt& s) {
  if (!s.comment.empty()) out_.comment(s.comment);
  std::visit(
      overloaded{[&](const BlockStmt& b) { block(b.body); }, [&](const For& f) { forLoop(f); },
                 [&](const If& i) { ifElse(i); }, [&](const Alloc& a) { allocate(s, a.buffer); },
                 [&](const Store& t) { store(t); }, [&](const Copy& c) { copy(c); },
                 [&](const Sync& y) {
                   if (y.kind == Sync::Last) arrive();
                   TEKTITE_CHECK(y.kind != Sync::Grid, "sync grid inside a tile");
                 },
                 [&](const Intrin& i) { intrin(i); }},
      s.kind);
}

void Body::loop(const std::string& variable, const Expr& extent, uint64_t written,
                const std::function<void()>& body) {
  const auto known = asInteger(extent);
  if (known && *known <= 0) return;
  memo_.forget(written);
  if (known == 1) {
    constant(variable, 0);
    body();
    constants_.erase(variable);
    return;
  }
  const Value n = emit(extent);
  const std::string before = out_.fresh("before"), start = out_.fresh(variable),
                    latch = out_.fresh(variable + ".next"), done = out_.fresh(variable + ".end");
  if (known) {
    out_.jump(before);
  } else {
    out_.branch(out_.set("any", "icmp sgt i64 {}, 0", n.text), before, done);
  }
  out_.start(before);
  out_.jump(start);
  out_.start(start);
  const std::string next = "%" + out_.fresh(variable);
  const std::string now =
      out_.set(variable, "phi i64 [ 0, %{} ], [ {}, %{} ]", before, next, latch);
  const auto outer = variables_.find(variable) == variables_.end()
                         ? std::nullopt
                         : std::optional(variables_[variable]);
  bind(variable, {now, DType::I64}, {0, std::max<int64_t>(0, facts().bounds(extent).high - 1)});
  if (!known) assume(lt(var(variable), extent));
  memo_.push();
  body();
  memo_.pop();
  if (!known) forgetAssumption();
  if (outer) variables_[variable] = *outer;
  out_.jump(latch);
  out_.start(latch);
  out_.line("{} = add nuw nsw i64 {}, 1", next, now);
  out_.branch(out_.set("more", "icmp slt i64 {}, {}", next, n.text), start, done);
  out_.start(done);
}

void Body::forLoop(const For& f) {
  const Expr extent = now(f.extent);
  const auto known = asInteger(extent);
  const auto written = [&] {
    return writtenBy(f.body, [&](const std::string& b) {
      return places_.count(b) ? places_.at(b).bit : bitOf(b);
    });
  };
  TEKTITE_CHECK(f.mode != LoopMode::Warp && f.mode != LoopMode::Thread, "{} loop {} on a CPU",
                name(f.mode), f.var);
  if (f.mode == LoopMode::Serial || f.mode == LoopMode::Parallel)
    return loop(f.var, extent, written(), [&] { block(f.body); });
  TEKTITE_CHECK(known, "extent of {} loop {} is {}, expected a constant", name(f.mode), f.var,
                toText(extent));
  if (f.mode == LoopMode::Vector && !lanes_ && *known > 1)
    return vectorLoop(f, static_cast<int>(*known));
  for (int64_t i = 0; i < *known; i++) {
    constant(f.var, i);
    block(f.body);
  }
  constants_.erase(f.var);
}

void Body::vectorLoop(const For& f, int lanes) {
  lanes_ = lanes;
  laneVariable_ = f.var;
  ranges_[f.var] = {0, lanes - 1};
  facts_.reset();
  varies_.clear();
  block(f.body);
  lanes_ = 0;
  laneVariable_.clear();
  varies_.clear();
}

void Body::branch(const Expr& condition, const std::function<void()>& body) {
  if (const auto known = asInteger(condition); known || facts().proves(condition)) {
    if (!known || *known) body();
    return;
  }
  const Value c = emit(condition);
  const std::string then = out_.fresh("if"), done = out_.fresh("end");
  out_.branch(c.text, then, done);
  out_.start(then);
  memo_.push();
  assume(condition);
  body();
  forgetAssumption();
  memo_.pop();
  out_.jump(done);
  out_.start(done);
}

/// What is the same for all lanes is a branch; the rest is a mask.
void Body::ifElse(const If& i) {
  const auto [same, each] =
      splitByLanes(ready(i.condition), [&](const Expr& e) { return varies(e); });
  branch(same, [&] {
    if (isConstant(each, 1) || facts().proves(each)) return block(i.body);
    if (!isConstant(each, 0) && !facts().proves(logicalNot(each))) masked(each, i);
  });
}

void Body::masked(const Expr& condition, const If& i) {
  const Value outer = mask_;
  const bool some = someOn_;
  mask_ = maskAnd(emit(condition));
  memo_.push();
  const bool ask = needsSomeLane(i.body);
  const std::string then = out_.fresh("on"), done = out_.fresh("off");
  someOn_ = ask;
  if (ask) {
    out_.branch(someLane(), then, done);
    out_.start(then);
  }
  block(i.body);
  if (ask) {
    out_.jump(done);
    out_.start(done);
  }
  memo_.pop();
  mask_ = outer;
  someOn_ = some;
}

/// Does the body touch, for all lanes alike, memory that only a lane that is on may touch? Or loop, which no lane may need.
bool Body::needsSomeLane(const Block& block) {
  const auto inside = [&](const Expr& load) { return !places_.count(load.as<Load>()->buffer); };
  const auto eachItsOwn = [&](const Expr& e) {  // what is allocated inside, each lane has
    const std::vector<Expr> loads = loadsOf(e);
    return std::any_of(loads.begin(), loads.end(), inside) || varies(e);
  };
  const auto touches = [&](const Ref& r) {
    const auto it = places_.find(r.buffer);
    if (it == places_.end() || it->second.own) return false;  // unknown: allocated inside
    std::vector<Expr> index;
    for (const Expr& e : r.index) index.push_back(now(e));
    return std::none_of(index.begin(), index.end(), eachItsOwn) && !inRange(it->second, index);
  };
  const auto reads = [&](const Expr& e) {
    bool found = false;
    visit(e, [&](const Expr& x) {
      if (const Load* l = x.as<Load>()) found = found || touches({l->buffer, l->index});
    });
    return found;
  };
  return std::any_of(block.begin(), block.end(), [&](const Stmt& s) {
    return std::visit(
        overloaded{[&](const BlockStmt& b) { return needsSomeLane(b.body); },
                   [](const For&) { return true; },
                   [&](const If& i) { return reads(i.condition) || needsSomeLane(i.body); },
                   [](const Alloc&) { return false; },
                   [&](const Store& t) {
                     return std::any_of(t.targets.begin(), t.targets.end(), touches) ||
                            std::any_of(t.values.begin(), t.values.end(), reads);
                   },
                   [](const Copy&) { return true; }, [](const Sync&) { return false; },
                   [](const Intrin&) { return false; }},
        s.kind);
  });
}

void Body::allocate(const Stmt& s, const Buffer& b) {
  if (b.space == "main") return;  // a parameter of the function
  Place p{b.name, b.type, {}, {}, {}, lanes_};
  int64_t count = std::max(lanes_, 1);
  for (const Expr& e : b.shape) {
    p.shape.push_back(now(e));
    count *= std::max<int64_t>(1, highest(e));
  }
  for (const Expr& e : b.strides) p.strides.push_back(now(e));
  if (b.strides.empty()) p.strides = rowMajor(p.shape);
  p.bit = bitOf(b.name);
  p.align = std::max<int64_t>(64, b.align);
  p.own = b.space == "reg";
  if (p.own) {
    std::string& at = allocated_[&s];
    if (at.empty()) at = out_.allocate(b.name, memoryType(b.type), count, p.align);
    p.pointer = at;
  } else {
    scratchTop_ = (scratchTop_ + p.align - 1) / p.align * p.align;
    p.pointer = out_.set(b.name, "getelementptr i8, ptr %.scratch, i64 {}", scratchTop_);
    p.scratchAt = scratchTop_;
    scratchTop_ += count * bytes(b.type);
    scratchPeak_ = std::max(scratchPeak_, scratchTop_);
  }
  memo_.forget(p.bit);
  varies_.clear();
  places_[b.name] = std::move(p);
}

/// A copy is the nest of stores that it looks like; queues are run at once.
void Body::copy(const Copy& c) {
  if (!c.to) return prefetch(c, 0);
  const Place& from = placeOf(c.from.buffer);
  const Expr value = copiedValue(c, from.type, from.shape);
  Block nest{{Store{{*c.to}, "", {value}}}};
  for (size_t i = c.axes.size(); i-- > 0;) {
    const auto extent = asInteger(now(c.axes[i].extent));
    const bool lanes = i + 1 == c.axes.size() && extent && *extent > 1 && *extent <= 64 &&
                       (*extent & (*extent - 1)) == 0;
    nest = {
        {For{c.axes[i].var, c.axes[i].extent, lanes ? LoopMode::Vector : LoopMode::Serial, nest}}};
  }
  block(nest);
}

void Body::prefetch(const Copy& c, size_t axis) {
  if (axis == c.axes.size()) {
    Ref ref{c.from.buffer, {}};
    for (const Expr& e : c.from.index) ref.index.push_back(now(e));
    const Address a = address(ref);
    out_.call("", "void", "llvm.prefetch.p0",
              fmt::format("ptr {}, i32 0, i32 {}, i32 1", pointer(a), c.level.empty() ? 3 : 2),
              "ptr, i32, i32, i32");
    return;
  }
  const auto extent = asInteger(now(c.axes[axis].extent));
  if (axis + 1 < c.axes.size() || !extent)
    return loop(c.axes[axis].var, now(c.axes[axis].extent), 0, [&] { prefetch(c, axis + 1); });
  for (int64_t i = 0; i < *extent;
       i += 64 / bytes(placeOf(c.from.buffer).type)) {  // a cache line at a time
    constant(c.axes[axis].var, i);
    prefetch(c, axis + 1);
  }
  constants_.erase(c.axes[axis].var);
}

void Body::fence() {
  if (streamed_ && target_.triple.starts_with("x86_64"))
    out_.call("", "void", "llvm.x86.sse.sfence", "", "");
}

/// The last of the innermost loop's iterations to arrive goes on, and leaves the counter as it found it.
void Body::arrive() {
  TEKTITE_CHECK(last_, "sync last outside a grid loop's body");
  fence();
  const Value counter = emit(last_->counter), extent = emit(last_->extent);
  const std::string at =
      out_.set("arrived", "getelementptr i32, ptr %.counters, i64 {}", counter.text);
  const std::string before = out_.set("before", "atomicrmw add ptr {}, i32 1 acq_rel", at);
  const std::string wide = out_.set("before", "zext i32 {} to i64", before);
  const std::string mine = out_.set("mine", "add i64 {}, 1", wide);
  const std::string go = out_.fresh("last");
  out_.branch(out_.set("is", "icmp eq i64 {}, {}", mine, extent.text), go, last_->end);
  out_.start(go);
  out_.line("store atomic i32 0, ptr {} monotonic, align 4", at);
  memo_.forget(~uint64_t{0});
}

}  // namespace tektite::llvm_text
