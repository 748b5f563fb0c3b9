#include "emit/c_body.h"

#include <algorithm>
#include <utility>

#include "emit/c_intrinsics.h"
#include "emit/prepare.h"
#include "ir/kernel_walk.h"
#include "ir/mentions.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite::c_text {
namespace {

// Compilers unroll long inner loops as a whole, load far ahead and spill (sm_80, a sum of 384 products); by so many they don't.
constexpr int64_t kLongLoop = 64;
constexpr int kUnrolled = 4;

/// Vector loops are written out.
bool hasLoop(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
    if (const For* f = s.as<For>()) return f->mode != LoopMode::Vector || hasLoop(f->body);
    if (const If* i = s.as<If>()) return hasLoop(i->body);
    if (const BlockStmt* b = s.as<BlockStmt>()) return hasLoop(b->body);
    return false;
  });
}

}  // namespace

void Body::bind(const std::string& variable, const Value& value, Interval range) {
  variables_[variable] = value;
  ranges_[variable] = range;
  facts_.reset();
}

void Body::add(const std::string& buffer, Place place) { places_[buffer] = std::move(place); }

void Body::setLast(Expr counter, Expr arrivals) {
  counter_ = std::move(counter);
  arrivals_ = std::move(arrivals);
}

/// Tiles that only instructions touch: what a thread holds of them follows from the instruction.
void Body::seeFragments(
    const Intrin& i, const std::function<void(const std::string&, const std::vector<Expr>&)>& see) {
  const CIntrinsic* known = findIntrinsic(language_, i.name);
  const IntrinDef* def = module_.intrin(i.name);
  if (!known || !def) return;
  for (size_t k = 0, param = 0; k < i.args.size(); k++) {
    const Ref* r = std::get_if<Ref>(&i.args[k].value);
    if (!r) continue;
    const Buffer& tile = def->params.at(param++).buffer;
    if (tile.space != "frag") continue;
    fragments_[r->buffer] = {std::string(known->operands.at(k).type), known->operands.at(k).count,
                             static_cast<int>(tile.shape.size())};
    see(r->buffer, r->index);
  }
}

/// Registers that a team's threads carry from nest to nest have the thread in their index: a dimension that always is one is dropped.
void Body::setTeam(int threads, const Block& tile) {
  fragments_.clear();
  threads_ = threads;
  owned_.clear();
  std::set<std::string> owners;
  Path path;
  walk(tile, path,
       {[&](const Stmt& s, Path&) {
          const For* f = s.as<For>();
          if (f && (f->mode == LoopMode::Warp || f->mode == LoopMode::Thread))
            owners.insert(f->var);
        },
        nullptr});
  const auto see = [&](const std::string& buffer, const std::vector<Expr>& index) {
    const auto [at, isNew] = owned_.try_emplace(buffer, index.size(), true);
    for (size_t i = 0; i < index.size() && i < at->second.size(); i++) {
      const Var* v = index[i].as<Var>();
      at->second[i] = at->second[i] && v && owners.count(v->name);
    }
  };
  Path again;
  walk(tile, again,
       {[&](const Stmt& s, Path&) {
          eachExpr(s, [&](const Expr& e) {
            for (const Expr& l : loadsOf(e)) see(l.as<Load>()->buffer, l.as<Load>()->index);
          });
          if (const Store* t = s.as<Store>())
            for (const Ref& r : t->targets) see(r.buffer, r.index);
          if (const Copy* c = s.as<Copy>(); c && c->to) {
            see(c->to->buffer, c->to->index);
            see(c->from.buffer, c->from.index);
          }
          if (const Intrin* i = s.as<Intrin>()) seeFragments(*i, see);
        },
        nullptr});
}

void Body::reserve(const Kernel& kernel) {
  for (const Dim& d : kernel.dims) reserved_.insert(identifier(d.name));
  for (const Param& p : kernel.params) reserved_.insert(identifier(p.buffer.name));
  Path path;
  walk(kernel.body, path,
       {[&](const Stmt& s, Path&) {
          if (const For* f = s.as<For>()) reserved_.insert(identifier(f->var));
          if (const Alloc* a = s.as<Alloc>()) reserved_.insert(identifier(a->buffer.name));
          if (const Copy* c = s.as<Copy>())
            for (const CopyAxis& x : c->axes) reserved_.insert(identifier(x.var));
        },
        nullptr});
}

std::string Body::fresh(std::string_view hint) {
  std::string name;
  do {
    name = fmt::format("{}_{}", identifier(std::string(hint)), ++count_);
  } while (reserved_.count(name));
  return name;
}

void Body::line(const std::string& text) {
  out_.append(static_cast<size_t>(indent_) * 2, ' ');
  out_ += text + "\n";
}
void Body::open(const std::string& head) {
  line(head.empty() ? "{" : head + " {");
  indent_++;
}
void Body::close() {
  indent_--;
  line("}");
}

void Body::finish() {
  for (; opened_ > 0; opened_--) {
    memo_.pop_back();
    close();
  }
}

uint64_t Body::bitsWritten(const Block& block) const {
  uint64_t bits = 0;
  Path path;
  walk(block, path,
       {[&](const Stmt& s, Path&) {
          if (const Store* t = s.as<Store>())
            for (const Ref& r : t->targets) bits |= bitOf(r.buffer);
          if (const Copy* c = s.as<Copy>(); c && c->to) bits |= bitOf(c->to->buffer);
          if (const Alloc* a = s.as<Alloc>()) bits |= bitOf(a->buffer.name);
          if (s.as<Sync>() || s.as<Intrin>()) bits = ~uint64_t{0};
        },
        nullptr});
  return bits;
}

void Body::block(const Block& statements) {
  const int64_t top = sharedTop_;
  for (const Stmt& s : statements) statement(s);
  sharedTop_ = top;
}

void Body::statement(const Stmt& s) {
  for (std::string_view c = s.comment; !c.empty();) {
    const size_t end = c.find('\n');
    line(fmt::format("// {}", c.substr(0, end)));
    c = end == std::string_view::npos ? "" : c.substr(end + 1);
  }
  std::visit(overloaded{[&](const BlockStmt& b) {
                          open("");
                          memo_.push_back({});
                          block(b.body);
                          memo_.pop_back();
                          close();
                        },
                        [&](const For& f) { forLoop(f); }, [&](const If& i) { ifElse(i); },
                        [&](const Alloc& a) { allocate(a.buffer); },
                        [&](const Store& t) { store(t); }, [&](const Copy& c) { copy(c); },
                        [&](const Sync& y) { sync(y); }, [&](const Intrin& i) { intrinsic(i); }},
             s.kind);
}

/// Rounds that end in main memory gain nothing from being written out: it costs registers, so fewer teams run side by side.
bool Body::storesToMain(const Block& block) const {
  bool found = false;
  Path path;
  walk(block, path,
       {[&](const Stmt& s, Path&) {
          if (const Store* t = s.as<Store>())
            for (const Ref& r : t->targets) {
              const auto at = places_.find(r.buffer);
              found = found || (at != places_.end() && at->second.isMain);
            }
        },
        nullptr});
  return found;
}

void Body::loop(const For& f, const Expr& extent) {
  const auto known = asInteger(extent);
  if (known && *known <= 0) return;
  forget(bitsWritten(f.body));
  if (known == 1) {
    open("");
    memo_.push_back({});
    constants_[f.var] = Expr(0);
    block(f.body);
    constants_.erase(f.var);
    memo_.pop_back();
    return close();
  }
  begin({});
  const Interval in = facts().bounds(extent);
  const bool narrow = in.high <= INT32_MAX;
  const Value n = emit(extent);
  const std::string name = identifier(f.var);
  if (f.mode == LoopMode::Unroll) line("#pragma unroll");
  if (f.mode == LoopMode::Serial && !ofThread_.empty() && storesToMain(f.body))
    line("#pragma unroll 1");
  else if (f.mode == LoopMode::Serial && language_.kind == Language::Cuda && in.high > kLongLoop &&
           !hasLoop(f.body))
    line(fmt::format("#pragma unroll {}", kUnrolled));
  open(fmt::format("for ({0} {1} = 0; {1} < {2}; {1}++)", narrow ? "int" : "i64", name, n.at(2)));
  memo_.push_back({});
  bind(f.var, {name, Value::kAtom, DType::I64, narrow}, {0, std::max<int64_t>(0, in.high - 1)});
  if (!known) assume(lt(var(f.var), extent));
  block(f.body);
  if (!known) unassume();
  memo_.pop_back();
  close();
}

void Body::forLoop(const For& f) {
  const Expr extent = now(f.extent);
  if (f.mode == LoopMode::Warp || f.mode == LoopMode::Thread) return teamLoop(f);
  const auto known = asInteger(extent);
  if (f.mode == LoopMode::Vector && !lanes_ && known && *known > 1)
    return vectorLoop(f, static_cast<int>(*known));
  loop(f, extent);
}

/// Each thread of the team is one iteration.
void Body::teamLoop(const For& f) {
  const int64_t extent = asInteger(now(f.extent)).value_or(0), warp = target_.warp;
  const bool isWarp = f.mode == LoopMode::Warp;
  const std::string number = isWarp ? "warp" : inWarp_ ? "lane" : "thread";
  const int64_t all = isWarp ? threads_ / warp : inWarp_ ? warp : threads_;
  TEKTITE_CHECK(extent > 0 && extent <= all, "{} loop of {} in a team of {}", name(f.mode), extent,
                all);
  forget(bitsWritten(f.body));
  open(extent < all ? fmt::format("if ({} < {})", number, extent) : "");
  memo_.push_back({});
  bind(f.var, {number, Value::kAtom, DType::I64, true}, {0, extent - 1});
  const bool outer = std::exchange(inWarp_, inWarp_ || isWarp);
  ofThread_.push_back(f.var);
  block(f.body);
  ofThread_.pop_back();
  inWarp_ = outer;
  memo_.pop_back();
  close();
}

void Body::vectorLoop(const For& f, int lanes) {
  open("");
  memo_.push_back({});
  forget(bitsWritten(f.body));
  lanes_ = lanes;
  lane_ = f.var;
  ranges_[f.var] = {0, lanes - 1};
  facts_.reset();
  block(f.body);
  lanes_ = 0;
  lane_.clear();
  memo_.pop_back();
  close();
}

void Body::branch(const Expr& condition, const std::function<void()>& body, bool ofThread) {
  if (const auto known = asInteger(condition); known || facts().proves(condition)) {
    if (!known || *known) body();
    return;
  }
  begin({condition});
  const Value c = emit(condition);
  open(ofThread ? fmt::format("if ({} && thread >= 0)", c.at(1)) : fmt::format("if ({})", c.text));
  memo_.push_back({});
  assume(condition);
  body();
  unassume();
  memo_.pop_back();
  close();
}

/// What is the same for all lanes is a branch; the rest is a mask. PoCL 3.1 puts barriers into loops whose count all threads agree on, and
/// computes something else where such a loop is under a condition that they agree on, too: it is told nothing of that.
void Body::ifElse(const If& i) {
  const auto [same, each] =
      splitByLanes(now(i.condition), [&](const Expr& e) { return varies(e); });
  const bool agreed =
      !ofThread_.empty() &&
      std::none_of(ofThread_.begin(), ofThread_.end(), [&](auto& v) { return mentions(same, v); });
  const bool hidden = language_.kind == Language::OpenCl && agreed && hasLoop(i.body);
  branch(
      same,
      [&] {
        if (isConstant(each, 1) || facts().proves(each)) return block(i.body);
        masked(each, i.body);
      },
      hidden);
}

void Body::masked(const Expr& condition, const Block& body) {
  const std::vector<std::string> outer = masks_;
  std::vector<std::string> masks;
  for (int l = 0; l < lanes_; l++) {
    const Expr c = atLane(condition, l);
    const std::string name = fresh("on");
    inLane(l, {c}, [&] {
      begin({c});
      const Value v = emit(c);
      line(fmt::format("const bool {} = {}{};", name, outer.empty() ? "" : outer[l] + " && ",
                       v.at(1)));
    });
    masks.push_back(name);
  }
  masks_ = std::move(masks);
  assume(condition);
  block(body);
  unassume();
  masks_ = outer;
}

void Body::sync(const Sync& y) {
  switch (y.kind) {
    case Sync::Shared:
      if (threads_ > 0) line(std::string(language_.barrier));
      break;
    case Sync::Queue:
      if (language_.kind != Language::Cuda) break;
      helper("cp_async_wait");
      line(fmt::format("cp_async_wait<{}>();", y.pending));
      break;
    case Sync::Last: arrive(); break;
    case Sync::Grid: TEKTITE_CHECK(false, "sync grid inside a tile");
  }
  forget(~uint64_t{0});
}

void Body::arrive() {
  TEKTITE_CHECK(counter_, "sync last outside a grid loop's body");
  const Value counter = emit(now(counter_)), arrivals = emit(now(arrivals_));
  if (threads_ > 0) {
    usesLast_ = true;
    helper("last_arrival");
    open(fmt::format("if (last_arrival(&counters[{}], {}, thread, &isLast))", counter.text,
                     arrivals.text));
  } else {
    helper("last_arrival_alone");
    open(fmt::format("if (last_arrival_alone(&counters[{}], {}))", counter.text, arrivals.text));
  }
  memo_.push_back({});
  opened_++;
}

}  // namespace tektite::c_text
