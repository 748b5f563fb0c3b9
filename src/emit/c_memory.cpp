#include <algorithm>

#include "emit/c_body.h"
#include "emit/c_intrinsics.h"
#include "emit/prepare.h"
#include "ir/kernel_walk.h"
#include "support/check.h"

namespace tektite::c_text {
namespace {

constexpr int64_t kMostShared = 48 << 10;  // bytes that a team has without asking for more

}  // namespace

std::vector<Expr> rowMajor(const std::vector<Expr>& shape) {
  std::vector<Expr> strides(shape.size(), Expr(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
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

}  // namespace tektite::c_text
