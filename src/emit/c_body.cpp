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

/// Vector loops are written out.
bool hasLoop(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Stmt& s) {
    if (const For* f = s.as<For>()) return f->mode != LoopMode::Vector || hasLoop(f->body);
    if (const If* i = s.as<If>()) return hasLoop(i->body);
    if (const BlockStmt* b = s.as<BlockStmt>()) return hasLoop(b->body);
    return false;
  });
}

constexpr int64_t kMostShared = 48 << 10;  // bytes that a team has without asking for more

bool isReserved(const std::string& name) {
  static const std::set<std::string> words = {
      "auto",     "bool",     "break",    "case",    "char",     "class",  "const",
      "continue", "default",  "delete",   "do",      "double",   "else",   "enum",
      "event",    "extern",   "float",    "for",     "goto",     "half",   "if",
      "image",    "inline",   "int",      "kernel",  "global",   "local",  "constant",
      "private",  "generic",  "pipe",     "sampler", "long",     "new",    "operator",
      "register", "restrict", "return",   "short",   "signed",   "sizeof", "static",
      "struct",   "switch",   "template", "this",    "typedef",  "union",  "unsigned",
      "using",    "vec",      "virtual",  "void",    "volatile", "while",  "min",
      "max",      "fma",      "sqrt",     "floor",   "ceil",     "trunc",  "rint",
      "fabs",     "exp",      "log",      "pow",     "round",    "sign",   "select",
      "dot",      "cross",    "step",     "mix",     "clamp",    "length", "normalize",
      "distance", "any",      "all",      "rotate",  "mad",      "abs",    "y0",
      "y1",       "yn",       "j0",       "j1",      "jn",       "thread", "tile",
      "at",       "isLast",   "shared",   "rest0",   "rest1",    "rest2",  "rest3",
      "warp",     "lane",     "counters", "asm",     "true",     "false",  "NAN",
      "INFINITY", "and",      "or",       "not",     "xor",      "ushort", "uchar",
      "uint",     "ulong",    "near",     "far",     "main",     "linux",  "unix",
      "signbit",  "isnan",    "isinf",    "erf",     "sin",      "cos",    "tan",
      "tanh",     "i",        "in"};
  return words.count(name) > 0 || dtypeFromName(name) || name.starts_with("__");
}

}  // namespace

std::vector<Expr> rowMajor(const std::vector<Expr>& shape) {
  std::vector<Expr> strides(shape.size(), Expr(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string identifier(const std::string& name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return isReserved(out) ? out + "_" : out;
}

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

void Body::allocate(const Buffer& b) {
  if (b.space == "main") return;  // a parameter
  if (b.space == "frag") return allocateFragment(b);
  Place p{identifier(b.name), b.type, {}, {}};
  for (const Expr& e : b.shape) p.shape.push_back(now(e));
  const bool carried = threads_ > 0 && ofThread_.empty() && b.space == "reg";
  if (carried && owned_.count(b.name)) p.owned = owned_.at(b.name);
  std::vector<Expr> kept;
  for (size_t i = 0; i < p.shape.size(); i++)
    if (p.owned.empty() || !p.owned[i]) kept.push_back(p.shape[i]);
  std::vector<Expr> strides = rowMajor(kept);
  for (size_t i = 0, k = 0; i < p.shape.size(); i++)
    p.strides.push_back(p.owned.empty() || !p.owned[i] ? strides[k++] : Expr(0));
  for (size_t i = 0; i < b.strides.size(); i++) p.strides[i] = now(b.strides[i]);
  int64_t count = 1;
  for (const Expr& e : kept) count *= std::max<int64_t>(1, facts().bounds(e).high);
  p.lanes = lanes_;
  count *= std::max(1, lanes_);
  p.inRegisters = b.space == "reg";
  p.isScalar = p.inRegisters && kept.empty() && !lanes_;
  const bool isTeams = threads_ > 0 && ofThread_.empty() && !p.inRegisters;
  p.align = isTeams || count * bytes(b.type) >= 16 ? std::max<int64_t>(16, b.align) : bytes(b.type);
  if (b.type == DType::F64) helper("f64");
  forget(bitOf(b.name));
  if (isTeams) {
    p.name = taken_.insert(p.name).second ? p.name : fresh(b.name);
    sharedTop_ = (sharedTop_ + p.align - 1) / p.align * p.align;
    shared_.push_back({p.name, b.type, count, sharedTop_});
    sharedTop_ += count * bytes(b.type);
    sharedPeak_ = std::max(sharedPeak_, sharedTop_);
  } else {
    if (taken_.count(p.name)) p.name += "_";
    const std::string type(p.inRegisters ? registerType(b.type) : memoryType(b.type));
    const std::string aligned = p.inRegisters || p.align < 16 ? ""
                                : language_.kind == Language::OpenCl
                                    ? "__attribute__((aligned(16))) "
                                    : "__align__(16) ";
    line(p.isScalar ? fmt::format("{} {};", type, p.name)
                    : fmt::format("{}{} {}[{}];", aligned, type, p.name, count));
  }
  places_[b.name] = std::move(p);
}

bool Body::sharesDynamically() const {
  return sharedPeak_ > kMostShared && language_.kind == Language::Cuda;
}

/// What the team shares: an array each, or parts of one where blocks in sequence need more together than there is.
std::string Body::sharedDeclarations() const {
  std::string out;
  int64_t sum = 0;
  for (const Shared& s : shared_) sum += (s.count * bytes(s.type) + 15) / 16 * 16;
  const bool openCl = language_.kind == Language::OpenCl;
  const std::string aligned = openCl ? "__attribute__((aligned(16))) " : "__align__(16) ";
  const Level* level = target_.level("shared");
  const int64_t limit = std::min<int64_t>(level ? level->bytes : kMostShared, kMostShared);
  if (usesLast_) out += fmt::format("  {}int isLast;\n", language_.shared);
  if (sum <= limit) {
    for (const Shared& s : shared_)
      out += fmt::format("  {}{}{} {}[{}];\n", language_.shared, aligned, memoryType(s.type),
                         s.name, s.count);
    return out;
  }
  if (sharesDynamically())
    out += fmt::format("  extern __shared__ {}u8 shared[];  // {} bytes\n", aligned, sharedPeak_);
  else
    out += fmt::format("  {}{}u8 shared[{}];\n", language_.shared, aligned, sharedPeak_);
  for (const Shared& s : shared_)
    out += fmt::format("  {0}{1}* const {2} = ({0}{1}*)(shared + {3});\n",
                       openCl ? language_.shared : "", memoryType(s.type), s.name, s.at);
  return out;
}

void Body::allocateFragment(const Buffer& b) {
  const auto at = fragments_.find(b.name);
  if (at == fragments_.end()) return;  // nothing touches it
  const Fragment& f = at->second;
  Place p{identifier(b.name), b.type, b.shape, std::vector<Expr>(b.shape.size(), Expr(0))};
  p.inRegisters = true;
  int64_t count = f.count;
  for (size_t i = b.shape.size() - static_cast<size_t>(f.rank); i-- > 0;) {
    if (ofThread_.empty() && owned_.at(b.name)[i]) continue;
    p.strides[i] = Expr(count);
    count *= asInteger(b.shape[i]).value_or(1);
  }
  line(fmt::format("{} {}[{}];", f.type, p.name, count));
  places_[b.name] = std::move(p);
}

/// The address of an operand's first element, and the stride of its rows where it lies in memory.
std::string Body::operand(const IntrinArg& arg, bool isFragment) {
  if (const Expr* e = std::get_if<Expr>(&arg.value)) return emit(now(*e)).text;
  Ref r = std::get<Ref>(arg.value);
  for (Expr& e : r.index) e = now(e);
  const Place& place = placeOf(r.buffer);
  const std::string at = "&" + element(r);
  if (isFragment || place.inRegisters) return at;
  return fmt::format("{}, {}", at, emit(place.strides.at(place.strides.size() - 2)).text);
}

void Body::intrinsic(const Intrin& i) {
  const CIntrinsic* known = findIntrinsic(language_, i.name);
  if (!known) userError("intrin {}: {} has none of that name", i.name, language_.extension);
  begin({});
  helper(std::string(known->helper));
  std::string arguments;
  for (size_t k = 0; k < i.args.size(); k++)
    arguments += (k ? ", " : "") + operand(i.args[k], known->operands.at(k).count > 0);
  line(fmt::format("{}({});", known->helper, arguments));
  forget(~uint64_t{0});
}

/// One asynchronous copy of 16 bytes: elements that lie side by side here and there, with what is outside the source 0.
bool Body::copyAsync(const Copy& c) {
  if (language_.kind != Language::Cuda || c.queue.empty() || !c.to || c.axes.size() != 1)
    return false;
  const Place &from = placeOf(c.from.buffer), &to = placeOf(c.to->buffer);
  const std::string& axis = c.axes[0].var;
  const auto n = asInteger(now(c.axes[0].extent));
  if (!n || *n * bytes(from.type) != 16 || from.type != to.type || from.inRegisters ||
      to.inRegisters)
    return false;
  const Imm* zero = c.fill ? c.fill.as<Imm>() : nullptr;
  if (c.fill && !(zero && (isFloat(c.fill.type()) ? zero->real == 0 : zero->integer == 0)))
    return false;
  ranges_[axis] = {0, *n - 1};
  facts_.reset();
  const auto along = [&](const Place& p, const std::vector<Expr>& index) {
    Expr at = 0;
    for (size_t d = 0; d < index.size(); d++) at = at + now(index[d]) * p.strides[d];
    const Linear sum = linearOf(at);
    if (sum.coefficientOf(axis) != 1 || sum.constant % *n != 0) return false;
    for (const auto& [term, by] : sum.terms) {
      const Var* v = term.as<Var>();
      if ((!v || v->name != axis) && by % *n != 0) return false;
    }
    return true;
  };
  if (!along(from, c.from.index) || !along(to, c.to->index)) return false;
  Expr inside = boolean(true), count = Expr(*n);
  for (size_t d = 0; c.fill && d < c.from.index.size(); d++) {
    const Expr at = now(c.from.index[d]);
    const Expr first = substitute(at, {{axis, Expr(0)}});
    if (linearOf(at).coefficientOf(axis) == 0)
      inside = logicalAnd(inside, logicalAnd(le(Expr(0), at), lt(at, from.shape[d])));
    else
      count = max(min(from.shape[d] - first, Expr(*n)), Expr(0));
  }
  const auto first = [&](const Ref& r) {
    Ref out{r.buffer, {}};
    for (const Expr& e : r.index) out.index.push_back(substitute(now(e), {{axis, Expr(0)}}));
    return out;
  };
  const Expr size = facts().simplify(select(inside, count * Expr(bytes(from.type)), Expr(0)));
  const Ref source = first(c.from), target = first(*c.to);
  begin({size});
  helper("cp_async16");
  const std::string n_ = atom(size), there = element(source);
  const std::string address =
      c.fill ? fmt::format("{} ? &{} : {}", n_, there, from.name) : "&" + there;
  line(fmt::format("cp_async16(&{}, {}, {});", element(target), address, n_));
  forget(bitOf(c.to->buffer));
  return true;
}

/// A copy is the nest of stores that it looks like, or an asynchronous one.
void Body::copy(const Copy& c) {
  if (!c.to || copyAsync(c)) return;  // without destination: a prefetch
  const Place& from = placeOf(c.from.buffer);
  const Expr value = copiedValue(c, from.type, from.shape);
  Block nest{{Store{{*c.to}, "", {value}}, ""}};
  for (size_t i = c.axes.size(); i-- > 0;)
    nest = {{For{c.axes[i].var, c.axes[i].extent, LoopMode::Serial, nest}, ""}};
  block(nest);
  if (language_.kind == Language::Cuda && !c.queue.empty()) {  // it counts
    helper("cp_async_commit");
    line("cp_async_commit();");
  }
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
