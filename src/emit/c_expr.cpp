#include <algorithm>
#include <cmath>

#include "emit/c_body.h"
#include "emit/prepare.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite::c_text {
namespace {

constexpr size_t kLongText = 72;  // a longer part of an expression gets a name
constexpr int kSmall = 12;        // nodes of what may be written where it is used

bool isInt(const Interval& in) { return in.low >= INT32_MIN && in.high <= INT32_MAX; }

int nodesOf(const Expr& e, int limit) {
  if (limit <= 0) return 1;
  int n = 1;
  const auto all = [&](const std::vector<Expr>& list) {
    for (const Expr& x : list) n += nodesOf(x, limit - n);
  };
  std::visit(overloaded{[](const Imm&) {}, [](const Var&) {}, [&](const Load& l) { all(l.index); },
                        [&](const Cast& c) { n += nodesOf(c.arg, limit - 1); },
                        [&](const Apply& a) { all(a.args); }},
             e->kind);
  return n;
}

bool hasIndices(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found = found || x.type() == DType::I64; });
  return found;
}

std::string realText(double x, DType type) {
  const bool isDouble = type == DType::F64;
  if (std::isnan(x)) return isDouble ? "(double)NAN" : "NAN";
  if (std::isinf(x))
    return fmt::format("{}{}INFINITY", x < 0 ? "-" : "", isDouble ? "(double)" : "");
  std::string text = isDouble ? fmt::format("{}", x) : fmt::format("{}", static_cast<float>(x));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return isDouble ? text : text + "f";
}

}  // namespace

uint64_t bitOf(const std::string& name) {
  return uint64_t{1} << (Hasher().add(std::string_view(name)).finish().lo % 64);
}

const Value* Body::known(const Expr& e) const {
  for (size_t i = memo_.size(); i-- > 0;)
    if (const auto it = memo_[i].find(e.hash()); it != memo_[i].end()) return &it->second.value;
  return nullptr;
}

void Body::forget(uint64_t written) {
  for (auto& scope : memo_)
    std::erase_if(scope, [&](const auto& e) { return e.second.reads & written; });
}

uint64_t Body::readsOf(const Expr& e) {
  return buffersRead(e, [&](const std::string& buffer) { return bitOf(buffer); }, reads_);
}

void Body::begin(const std::vector<Expr>& roots) {
  uses_.clear();
  std::set<Hash> seen;
  const std::function<void(const Expr&)> use = [&](const Expr& e) {
    uses_[e.hash()]++;
    if (!seen.insert(e.hash()).second) return;
    std::visit(overloaded{[](const Imm&) {}, [](const Var&) {},
                          [&](const Load& l) {
                            for (const Expr& x : l.index) use(x);
                          },
                          [&](const Cast& c) { use(c.arg); },
                          [&](const Apply& a) {
                            for (const Expr& x : a.args) use(x);
                          }},
               e->kind);
  };
  for (const Expr& e : roots) use(e);
}

Value Body::emit(const Expr& e) {
  if (const Imm* i = e.as<Imm>()) return number(e, *i);
  if (const Value* value = known(e)) return *value;
  const Value value = compute(e);
  const auto uses = uses_.find(e.hash());
  const bool shared = uses != uses_.end() && uses->second > 1 && value.text.size() > 3;
  const bool isName = e.as<Var>() != nullptr;
  if (inline_ || isName || (!shared && value.text.size() <= kLongText)) return value;
  return named(e, value);
}

std::string Body::valueType(const Expr& e, const Value& v) const {
  return std::string(v.narrow ? std::string_view("int") : registerType(e.type()));
}

Value Body::named(const Expr& e, const Value& value) {
  const Load* l = e.as<Load>();
  const std::string hint = l                         ? l->buffer
                           : e.type() == DType::I64  ? "at"
                           : e.type() == DType::Bool ? "is"
                                                     : "v";
  const std::string name = fresh(hint);
  line(fmt::format("const {} {} = {};", valueType(e, value), name, value.text));
  Value out = value;
  out.text = name;
  out.binds = Value::kAtom;
  memo_.back()[e.hash()] = {out, readsOf(e)};
  return out;
}

std::string Body::atom(const Expr& e) {
  const Value v = emit(e);
  if (v.binds == Value::kAtom && v.text.size() <= 16) return v.text;
  return inline_ ? v.at(Value::kAtom) : named(e, v).text;
}

std::string Body::index(const Expr& e) { return emit(now(e)).text; }

Value Body::number(const Expr& e, const Imm& i) const {
  const DType t = e.type();
  if (isFloat(t)) {
    const std::string text = realText(i.real, t);
    return {text, text[0] == '-' ? 0 : Value::kAtom, t};
  }
  if (t == DType::Bool) return {i.integer ? "true" : "false", Value::kAtom, t};
  const int64_t n = i.integer;
  if (t == DType::U64 || (t == DType::U32 && n > INT32_MAX))
    return {fmt::format("{}{}", static_cast<uint64_t>(n), t == DType::U64 ? "ul" : "u"),
            Value::kAtom, t};
  if (n >= -INT32_MAX && n <= INT32_MAX)
    return {std::to_string(n), n < 0 ? 0 : Value::kAtom, t, t == DType::I64};
  if (n == INT64_MIN) return {"(-9223372036854775807 - 1)", Value::kAtom, t};
  if (n == INT32_MIN) return {"(-2147483647 - 1)", Value::kAtom, t, t == DType::I64};
  return {std::to_string(n) + (language_.kind == Language::OpenCl ? "l" : "ll"),
          n < 0 ? 0 : Value::kAtom, t};
}

Value Body::compute(const Expr& e) {
  return std::visit(overloaded{[&](const Imm& i) { return number(e, i); },
                               [&](const Var& v) {
                                 const auto it = variables_.find(v.name);
                                 TEKTITE_CHECK(it != variables_.end(), "no variable '{}'", v.name);
                                 return it->second;
                               },
                               [&](const Load& l) { return loadFrom(e, l); },
                               [&](const Cast& c) { return cast(e.type(), emit(c.arg), c.arg); },
                               [&](const Apply& a) { return applyOp(e, a); }},
                    e->kind);
}

const Place& Body::placeOf(const std::string& name) const {
  const auto it = places_.find(name);
  TEKTITE_CHECK(it != places_.end(), "no buffer '{}'", name);
  return it->second;
}

Expr Body::flat(const Place& place, const std::vector<Expr>& index) {
  Expr at = 0;
  for (size_t i = 0; i < index.size(); i++)
    if (place.owned.empty() || !place.owned[i]) at = at + index[i] * place.strides[i];
  if (place.lanes) at = at * Expr(place.lanes) + now(var(lane_));
  return facts().simplify(at);
}

bool Body::inRange(const Place& place, const std::vector<Expr>& index) {
  return provenInside(facts(), place.shape, index);
}

Value Body::loadFrom(const Expr& e, const Load& l) {
  const Place& place = placeOf(l.buffer);
  const std::string text = element({l.buffer, l.index});
  return place.inRegisters ? Value{text, Value::kAtom, e.type()} : fromMemory(e.type(), text);
}

Value Body::fromMemory(DType t, const std::string& text) {
  if (t == DType::F64) helper("f64");
  if (t == DType::Bool) return {text + " != 0", 0, t};
  if (t != DType::F16 && t != DType::BF16) return {text, Value::kAtom, t};
  const std::string function = t == DType::F16 ? "f16_to_f32" : "bf16_to_f32";
  helper(function);
  return {fmt::format("{}({})", function, text), Value::kAtom, t};
}

/// Touches it only what is proven to be in range?
bool Body::isSafe(const Expr& e) {
  bool safe = true;
  visit(e, [&](const Expr& x) {
    if (const Load* l = x.as<Load>(); l && !known(x))
      safe = safe && inRange(placeOf(l->buffer), l->index);
  });
  return safe;
}

bool Body::isSmall(const Expr& e) const { return nodesOf(e, kSmall + 1) <= kSmall; }

/// Only the arm that is taken touches memory: what isn't proven to be in range is computed in a branch, or where it is written if it is small.
Value Body::choose(const Expr& e, const Apply& a) {
  const Expr &condition = a.args[0], &yes = a.args[1], &no = a.args[2];
  const Value c = emit(condition);
  const bool yesSafe = isSafe(yes), noSafe = isSafe(no);
  const bool branches = inline_ == 0 && ((!yesSafe && !isSmall(yes)) || (!noSafe && !isSmall(no)));
  const auto arm = [&](const Expr& x, bool safe, const Expr& fact) {
    if (!hasIndices(x)) return emit(x);
    memo_.push_back({});  // what is known here only
    assume(fact);
    inline_ += !safe;
    const Value v = emit(x);
    inline_ -= !safe;
    unassume();
    memo_.pop_back();
    return v;
  };
  if (!branches) {
    const Value y = arm(yes, yesSafe, condition), n = arm(no, noSafe, logicalNot(condition));
    Value out{fmt::format("{} ? {} : {}", c.at(1), y.at(1), n.at(1)), 0, e.type()};
    out.narrow = y.narrow && n.narrow;
    if (e.type() == DType::I64 && y.narrow != n.narrow)
      out.text =
          fmt::format("{} ? (i64){} : (i64){}", c.at(1), y.at(Value::kAtom), n.at(Value::kAtom));
    return out;
  }
  const std::string name = fresh("v");
  line(fmt::format("{} {};", registerType(e.type()), name));
  const auto branch = [&](const std::string& head, const Expr& x, const Expr& fact) {
    open(head);
    memo_.push_back({});
    assume(fact);
    line(fmt::format("{} = {};", name, emit(x).text));
    unassume();
    memo_.pop_back();
    close();
  };
  branch(fmt::format("if ({})", c.text), yes, condition);
  branch("else", no, logicalNot(condition));
  Value out{name, Value::kAtom, e.type()};
  memo_.back()[e.hash()] = {out, readsOf(e)};
  return out;
}

Value Body::rounded(DType type, std::string text, int binds) {
  if (type != DType::F16 && type != DType::BF16) return {std::move(text), binds, type};
  const std::string function = type == DType::F16 ? "round_f16" : "round_bf16";
  helper(function);
  return {fmt::format("{}({})", function, text), Value::kAtom, type};
}

Value Body::cast(DType to, const Value& v, const Expr& from) {
  const DType had = v.type;
  if (had == DType::F64 || to == DType::F64) helper("f64");
  const std::string type(registerType(to));
  const std::string plain = fmt::format("({}){}", type, v.at(Value::kAtom));
  if (isFloat(had) && isFloat(to)) {
    if (to == DType::F32 && had != DType::F64) return {v.text, v.binds, to};
    return rounded(to, had == DType::F64 || to == DType::F64 ? plain : v.text,
                   had == DType::F64 || to == DType::F64 ? Value::kAtom : v.binds);
  }
  if (isFloat(to)) return rounded(to, plain, Value::kAtom);
  if (isFloat(had)) {
    if (to == DType::Bool) {
      const std::string x = atom(from);
      return {fmt::format("{0} < 0 || {0} > 0", x), 0, to};
    }
    const std::string function =
        fmt::format("{}_of_{}", tektite::name(to), had == DType::F64 ? "f64" : "f32");
    helper(function);
    return {fmt::format("{}({})", function, v.text), Value::kAtom, to};
  }
  if (to == DType::Bool) return {fmt::format("{} != 0", v.at(1)), 0, to};
  if (to == DType::I64 && had != DType::Bool && isInt(facts().bounds(tektite::cast(to, from))) &&
      bits(had) <= 32 && had != DType::U32)
    return {v.text, v.binds, to, true};
  if (bits(to) == 4) {
    helper(fmt::format("wrap_{}", tektite::name(to)));
    return {fmt::format("wrap_{}((int){})", tektite::name(to), v.at(Value::kAtom)), Value::kAtom,
            to};
  }
  if (to == DType::I32 && (v.narrow || had == DType::I16 || had == DType::I8))
    return {v.text, v.binds, to};
  return {plain, Value::kAtom, to};
}

}  // namespace tektite::c_text
