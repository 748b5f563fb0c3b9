#include <algorithm>
#include <utility>

#include "emit/llvm_body.h"
#include "ops/math/math.h"
#include "support/check.h"

namespace tektite::llvm_text {

Combine Body::combineOf(const std::string& name, DType type) {
  if (isBuiltinCombine(name)) {
    Combine c = builtinCombine(name, type);
    if (name == "sum" && isFloat(type)) c.identity = {imm(type, -0.0)};  // adding it changes no bit
    return c;
  }
  const Combine* declared = module_.combine(name);
  TEKTITE_CHECK(declared, "no combine '{}'", name);
  Combine c = *declared;
  for (Expr& e : c.result) e = expandMath(e, mode_ == FastMath::Fast, &exact_);
  return c;
}

/// The combined state of two, each a tuple of values.
std::vector<Value> Body::join(const Combine& c, const std::vector<Value>& a,
                              const std::vector<Value>& b) {
  if (isBuiltinCombine(c.name)) return {scalars_.apply(c.result[0].as<Apply>()->op, {a[0], b[0]})};
  auto variables = std::exchange(variables_, {});
  auto varies = std::exchange(varies_, {});
  for (size_t i = 0; i < c.arity(); i++) {
    variables_[c.left[i]] = a[i];
    variables_[c.right[i]] = b[i];
  }
  std::string lane = std::exchange(laneVariable_, "");
  memo_.push(true);
  std::vector<Value> out;
  for (const Expr& e : c.result) out.push_back(emit(e));
  memo_.pop();
  laneVariable_ = std::move(lane);
  variables_ = std::move(variables);
  varies_ = std::move(varies);
  return out;
}

/// All lanes into one element: in index order where bits must not change, else by halves, which is as fixed.
std::vector<Value> Body::reduced(const Combine& c, const std::vector<Address>& at,
                                 std::vector<Value> values) {
  const size_t n = values.size();
  const auto lanesOf = [&](int from, int count) {
    std::vector<Value> part;
    for (const Value& v : values) part.push_back(scalars_.slice(v, from, count));
    return part;
  };
  std::vector<Value> state;
  for (const Address& a : at) state.push_back(loadScalar(a));
  for (size_t i = 0; i < n; i++) {
    values[i] = scalars_.splat(values[i], lanes_);
    if (mask_ && mode_ != FastMath::None)
      values[i] = scalars_.select(mask_, values[i], emit(c.identity[i]));
  }
  if (mode_ == FastMath::None) {
    for (int l = 0; l < lanes_; l++) {
      std::vector<Value> next = join(c, state, lanesOf(l, 1));
      if (mask_)
        for (size_t i = 0; i < n; i++)
          next[i] = scalars_.select(scalars_.lane(mask_, l), next[i], state[i]);
      state = std::move(next);
    }
    return state;
  }
  std::vector<Value> odd;
  for (int count = lanes_; count > 1; count /= 2) {
    if (count % 2) {
      std::vector<Value> last = lanesOf(count - 1, 1);
      odd = odd.empty() ? last : join(c, odd, last);
    }
    const std::vector<Value> low = lanesOf(0, count / 2), high = lanesOf(count / 2, count / 2);
    values = join(c, low, high);
  }
  if (!odd.empty()) values = join(c, values, odd);
  return join(c, state, values);
}

void Body::storeTo(const Address& a, const Value& value, bool stream) {
  const bool vector = lanes_ && a.varies();
  if (vector && (a.offsets || a.lane != 1)) return storeLanes(a, scalars_.splat(value, lanes_));
  const DType type = a.place->type;
  Value v = vector        ? scalars_.splat(value, lanes_)
            : value.lanes ? scalars_.lane(value, value.lanes - 1)
                          : value;
  const std::string at = pointer(a);
  if (vector && mask_) {
    const std::string text = scalars_.toMemory(v), memory = memoryType(type, lanes_);
    out_.call("", "void", fmt::format("llvm.masked.store.{}.p0", memorySuffix(type, lanes_)),
              fmt::format("{} {}, ptr {}, i32 {}, {}", memory, text, at, alignOf(a), typed(mask_)),
              fmt::format("{}, ptr, i32, {}", memory, typeOf(mask_)));
    return;
  }
  const std::string memory = memoryType(type, v.lanes);
  const int64_t align = alignOf(a), size = std::max(v.lanes, 1) * bytes(type);
  const bool past = stream && align >= size && size >= 16;
  streamed_ |= past;
  out_.line("store {} {}, ptr {}, align {}{}", memory, scalars_.toMemory(v), at, align,
            past ? ", !nontemporal !0" : "");
}

/// One element under a mask: what the last lane that is on stores, nothing where none is.
void Body::storeLastLane(const Address& a, const Value& value) {
  const DType type = a.place->type;
  const std::string word = fmt::format("i{}", lanes_), at = pointer(a);
  const std::string then = out_.fresh("on"), done = out_.fresh("done");
  const std::string bits = out_.set("on", "bitcast {} to {}", typed(mask_), word);
  out_.branch(out_.set("any", "icmp ne {} {}, 0", word, bits), then, done);
  out_.start(then);
  std::string one = scalars_.toMemory(value);
  if (value.lanes) {
    const std::string above = out_.call("above", word, "llvm.ctlz." + word,
                                        fmt::format("{} {}, i1 true", word, bits), word + ", i1");
    const std::string last = out_.set("last", "sub {} {}, {}", word, lanes_ - 1, above);
    one =
        out_.set("lane", "extractelement {} {}, {} {}", memoryType(type, lanes_), one, word, last);
  }
  out_.line("store {} {}, ptr {}, align {}", memoryType(type), one, at, alignOf(a));
  out_.jump(done);
  out_.start(done);
}

/// Lanes that lie apart: one store each, a scatter under a mask.
void Body::storeLanes(const Address& a, const Value& value) {
  const DType type = a.place->type;
  const std::string scalar = memoryType(type), memory = memoryType(type, lanes_),
                    text = scalars_.toMemory(value);
  if (mask_) {
    const std::string at = pointers(a);
    out_.call("", "void",
              fmt::format("llvm.masked.scatter.{}.v{}p0", memorySuffix(type, lanes_), lanes_),
              fmt::format("{} {}, <{} x ptr> {}, i32 {}, {}", memory, text, lanes_, at, bytes(type),
                          typed(mask_)),
              fmt::format("{}, <{} x ptr>, i32, {}", memory, lanes_, typeOf(mask_)));
    return;
  }
  const Value offsets = a.offsets ? emit(a.offsets) : Value{};
  for (int i = 0; i < lanes_; i++) {
    const std::string at = a.offsets ? out_.set("at", "getelementptr {}, ptr {}, i64 {}", scalar,
                                                a.place->pointer, scalars_.lane(offsets, i).text)
                                     : pointer(a, i * a.lane);
    const std::string one = out_.set("lane", "extractelement {} {}, i64 {}", memory, text, i);
    out_.line("store {} {}, ptr {}, align {}", scalar, one, at, bytes(type));
  }
}

std::vector<Value> Body::combined(const Store& s, const std::vector<Address>& at,
                                  std::vector<Value> values) {
  const Combine c = combineOf(s.combine, at[0].place->type);
  TEKTITE_CHECK(c.arity() == at.size(), "{} joins {} values, found {}", s.combine, c.arity(),
                at.size());
  const bool across =
      lanes_ && std::none_of(at.begin(), at.end(), [](const Address& a) { return a.varies(); });
  if (across) return reduced(c, at, std::move(values));
  std::vector<Value> old;
  for (const Address& a : at) old.push_back(loadFrom(a));
  return join(c, old, values);
}

/// Lanes may meet in one element where the index is data: one after another.
void Body::storeOneByOne(const Store& s, const std::vector<Ref>& targets,
                         const std::vector<Value>& values) {
  const Combine c = combineOf(s.combine, values[0].type);
  std::vector<Value> flat;
  for (const Ref& r : targets) flat.push_back(emit(address(r).offsets));
  for (int l = 0; l < lanes_; l++) {
    const std::string then = out_.fresh("on"), done = out_.fresh("done");
    if (mask_) {
      out_.branch(scalars_.lane(mask_, l).text, then, done);
      out_.start(then);
    }
    std::vector<Value> old, one;
    std::vector<std::string> at;
    for (size_t i = 0; i < targets.size(); i++) {
      const Place& p = placeOf(targets[i].buffer);
      at.push_back(out_.set("at", "getelementptr {}, ptr {}, i64 {}", memoryType(p.type), p.pointer,
                            scalars_.lane(flat[i], l).text));
      old.push_back(scalars_.fromMemory(
          out_.set(p.name, "load {}, ptr {}, align {}", memoryType(p.type), at[i], bytes(p.type)),
          p.type, 0));
      one.push_back(scalars_.lane(values[i], l));
    }
    const std::vector<Value> next = join(c, old, one);
    for (size_t i = 0; i < next.size(); i++)
      out_.line("store {} {}, ptr {}, align {}", memoryType(next[i].type),
                scalars_.toMemory(next[i]), at[i], bytes(next[i].type));
    if (mask_) {
      out_.jump(done);
      out_.start(done);
    }
  }
}

void Body::store(const Store& s) {
  std::vector<Value> values;
  for (const Expr& e : s.values) values.push_back(emit(ready(e)));
  std::vector<Ref> targets;
  std::vector<Address> at;
  uint64_t written = 0;
  for (const Ref& r : s.targets) {
    Ref ref{r.buffer, {}};
    for (const Expr& e : r.index) ref.index.push_back(now(e));
    at.push_back(address(ref));
    written |= at.back().place->bit;
    targets.push_back(std::move(ref));
  }
  const auto isData = [](const Address& a) { return static_cast<bool>(a.offsets); };
  if (!s.combine.empty() && lanes_ && std::any_of(at.begin(), at.end(), isData)) {
    TEKTITE_CHECK(std::all_of(at.begin(), at.end(), isData),
                  "{}: targets of one store lie differently over the lanes", targets[0].buffer);
    storeOneByOne(s, targets, values);
    return memo_.forget(written);
  }
  if (!s.combine.empty()) values = combined(s, at, std::move(values));
  for (size_t i = 0; i < at.size(); i++) {
    Address& a = at[i];
    if (lanes_ && mask_ && a.varies() && a.place->own && a.inRange && a.lane == 1)
      values[i] = scalars_.select(mask_, values[i], loadVector(a));
  }
  for (size_t i = 0; i < at.size(); i++) {
    const Value outer = mask_;
    if (at[i].place->own && at[i].inRange && at[i].lane == 1)
      mask_ = {};  // what was there is stored again
    if (lanes_ && mask_ && s.combine.empty() && !at[i].varies())
      storeLastLane(at[i], values[i]);
    else
      storeTo(at[i], values[i], s.stream);
    mask_ = outer;
  }
  memo_.forget(written);
}

}  // namespace tektite::llvm_text
