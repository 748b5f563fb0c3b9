#include <algorithm>

#include "emit/c_body.h"
#include "ops/math/math.h"
#include "support/check.h"

namespace tektite::c_text {
namespace {

constexpr int kVectorBytes = 16;  // the widest load of a thread

}  // namespace

std::string Body::element(const Ref& ref) {
  const Place& place = placeOf(ref.buffer);
  if (place.isScalar) return place.name;
  return fmt::format("{}[{}]", place.name, emit(flat(place, ref.index)).text);
}

std::string Body::toMemory(const Place& place, const Value& v) {
  if (place.inRegisters || (place.type != DType::F16 && place.type != DType::BF16)) return v.text;
  const std::string function = place.type == DType::F16 ? "f32_to_f16" : "f32_to_bf16";
  helper(function);
  return fmt::format("{}({})", function, v.text);
}

/// What a combine makes of the targets and the values.
std::vector<Expr> Body::joined(const Store& s, const std::vector<Ref>& targets,
                               const std::vector<Expr>& values) {
  std::vector<Expr> state;
  for (const Ref& r : targets) state.push_back(load(r.buffer, placeOf(r.buffer).type, r.index));
  if (isBuiltinCombine(s.combine))
    return builtinCombine(s.combine, placeOf(targets[0].buffer).type).join(state, values);
  const Combine* declared = module_.combine(s.combine);
  TEKTITE_CHECK(declared, "no combine '{}'", s.combine);
  std::vector<Expr> out = declared->join(state, values);
  for (Expr& e : out) e = expandMath(e, false);
  return out;
}

/// Do values read an element of a target that isn't the one they are stored to?
bool Body::crosses(const std::vector<Ref>& targets, const std::vector<Expr>& values) const {
  for (const Expr& value : values)
    for (const Expr& e : loadsOf(value)) {
      const Load& l = *e.as<Load>();
      for (const Ref& r : targets)
        if (bitOf(r.buffer) == bitOf(l.buffer) &&
            (r.buffer != l.buffer || r.index != l.index || targets.size() > 1))
          return true;
    }
  return false;
}

void Body::storeOnce(const Store& s, const std::vector<Ref>& targets,
                     const std::vector<Expr>& given) {
  const bool isSum = s.combine == "sum" && isFloat(placeOf(targets[0].buffer).type) &&
                     bits(placeOf(targets[0].buffer).type) >= 32;
  const std::vector<Expr> values = s.combine.empty() || isSum ? given : joined(s, targets, given);
  std::vector<Expr> roots = values;
  for (const Ref& r : targets)
    for (const Expr& e : r.index) roots.push_back(e);
  begin(roots);
  const bool first = crosses(targets, values);
  std::vector<std::string> texts;
  for (size_t i = 0; i < values.size(); i++) {
    Value v = emit(values[i]);
    if (first && targets.size() > 1) v = named(values[i], v);
    texts.push_back(toMemory(placeOf(targets[i].buffer), v));
  }
  uint64_t written = 0;
  for (size_t i = 0; i < targets.size(); i++) {
    line(fmt::format("{} {} {};", element(targets[i]), isSum ? "+=" : "=", texts[i]));
    written |= bitOf(targets[i].buffer);
  }
  forget(written);
}

Expr Body::atLane(const Expr& e, int lane) const { return substitute(e, {{lane_, Expr(lane)}}); }

/// What each lane has of its own reads alike in all of them: what is known of it in one is forgotten for the next.
void Body::inLane(int lane, const std::vector<Expr>& values, const std::function<void()>& body) {
  const bool own = std::any_of(values.begin(), values.end(), [&](const Expr& value) {
    const auto loads = loadsOf(value);
    return std::any_of(loads.begin(), loads.end(),
                       [&](const Expr& e) { return placeOf(e.as<Load>()->buffer).lanes > 0; });
  });
  constants_[lane_] = Expr(lane);
  if (own) memo_.push_back({});
  body();
  if (own) memo_.pop_back();
  constants_.erase(lane_);
}

bool Body::varies(const Expr& e) const {
  if (!lanes_) return false;
  bool found = false;
  visit(e, [&](const Expr& x) {
    const Var* v = x.as<Var>();
    const Load* l = x.as<Load>();
    found = found || (v && v->name == lane_) || (l && placeOf(l->buffer).lanes > 0);
  });
  return found;
}

/// The address of lane 0, where the lanes' elements are side by side and one access may take them all.
std::optional<Expr> Body::vectorAddress(const Place& place, const std::vector<Expr>& index) {
  const int size = bytes(place.type) * lanes_;
  const bool power = (lanes_ & (lanes_ - 1)) == 0;
  if (place.inRegisters || place.lanes || lanes_ < 2 || !power || size > kVectorBytes)
    return std::nullopt;
  if (place.align < size || !masks_.empty() || !inRange(place, index)) return std::nullopt;
  Linear at = linearOf(flat(place, index));
  if (at.coefficientOf(lane_) != 1 || at.constant % lanes_ != 0) return std::nullopt;
  Linear rest{{}, at.constant};
  for (const auto& [term, by] : at.terms) {
    const Var* v = term.as<Var>();
    if (v && v->name == lane_) continue;
    if (by % lanes_ != 0 || varies(term)) return std::nullopt;
    rest.terms.push_back({term, by});
  }
  return toExpr(rest);
}

std::string Body::vectorType(const Place& place) const {
  if (language_.kind == Language::Cuda)
    return fmt::format("vec<{}, {}>", memoryType(place.type), lanes_);
  switch (place.type) {
    case DType::Bool:
    case DType::U4:
    case DType::U8: return fmt::format("uchar{}", lanes_);
    case DType::I4:
    case DType::I8: return fmt::format("char{}", lanes_);
    case DType::I16: return fmt::format("short{}", lanes_);
    case DType::U16:
    case DType::F16:
    case DType::BF16: return fmt::format("ushort{}", lanes_);
    case DType::I32: return fmt::format("int{}", lanes_);
    case DType::U32: return fmt::format("uint{}", lanes_);
    case DType::I64: return fmt::format("long{}", lanes_);
    case DType::U64: return fmt::format("ulong{}", lanes_);
    case DType::F32: return fmt::format("float{}", lanes_);
    case DType::F64: return fmt::format("double{}", lanes_);
  }
  return "";
}

/// One access for each load that takes its lanes side by side; each lane's element is known from then on.
void Body::loadVectors(const std::vector<Expr>& values) {
  for (const Expr& value : values)
    for (const Expr& e : loadsOf(value)) {
      const Load& l = *e.as<Load>();
      if (!varies(e) || known(atLane(e, 0))) continue;
      const Place& place = placeOf(l.buffer);
      const auto at = vectorAddress(place, l.index);
      if (!at) continue;
      const std::string name = fresh(l.buffer), type = vectorType(place);
      const std::string from = fmt::format("&{}[{}]", place.name, emit(*at).text);
      if (language_.kind == Language::Cuda) {
        helper("vec");
        line(fmt::format("const {0} {1} = *reinterpret_cast<const {0}*>({2});", type, name, from));
      } else {
        line(fmt::format("const {} {} = vload{}(0, {});", type, name, lanes_, from));
      }
      for (int i = 0; i < lanes_; i++) {
        const std::string text = language_.kind == Language::Cuda
                                     ? fmt::format("{}.at[{}]", name, i)
                                     : fmt::format("{}.s{:x}", name, i);
        const Expr lane = atLane(e, i);
        memo_.back()[lane.hash()] = {fromMemory(e.type(), text), readsOf(lane)};
      }
    }
}

bool Body::storeVector(const Store& s) {
  if (s.targets.size() != 1 || !s.combine.empty()) return false;
  const Place& place = placeOf(s.targets[0].buffer);
  const auto at = vectorAddress(place, s.targets[0].index);
  if (!at) return false;
  std::string elements;
  for (int i = 0; i < lanes_; i++)
    inLane(i, s.values, [&] {
      const Expr value = atLane(s.values[0], i);
      begin({value});
      const Value v = emit(value);
      const bool isInt = !isFloat(place.type) && bits(place.type) < 32 && v.binds < Value::kAtom;
      elements +=
          (i ? ", " : "") +
          toMemory(place,
                   place.type == DType::Bool || isInt
                       ? Value{fmt::format("({}){}", memoryType(place.type), v.at(Value::kAtom))}
                       : v);
    });
  const std::string type = vectorType(place),
                    to = fmt::format("&{}[{}]", place.name, emit(*at).text);
  if (language_.kind == Language::Cuda) {
    helper("vec");
    line(fmt::format("*reinterpret_cast<{0}*>({1}) = {0}{{{{{2}}}}};", type, to, elements));
  } else {
    line(fmt::format("vstore{}(({})({}), 0, {});", lanes_, type, elements, to));
  }
  forget(bitOf(s.targets[0].buffer));
  return true;
}

/// All lanes read before any writes; lanes that meet in one element combine one after the other.
void Body::storeLanes(const Store& s) {
  if (masks_.empty()) loadVectors(s.values);
  if (storeVector(s)) return;
  std::vector<Expr> values = s.values;
  const bool meets = std::none_of(s.targets.begin(), s.targets.end(), [&](const Ref& r) {
    return placeOf(r.buffer).lanes > 0 ||
           std::any_of(r.index.begin(), r.index.end(), [&](const Expr& e) { return varies(e); });
  });
  const bool before = !meets && crosses(s.targets, values);
  std::vector<std::vector<Expr>> lanes(lanes_);
  for (int i = 0; i < lanes_; i++)
    for (size_t k = 0; k < values.size(); k++) {
      Expr value = atLane(values[k], i);
      if (before) {
        const std::string name = fresh("v");
        inLane(i, {value}, [&] {
          begin({value});
          if (masks_.empty())
            return line(fmt::format("const {} {} = {};", registerType(value.type()), name,
                                    emit(value).text));
          line(fmt::format("{} {};", registerType(value.type()), name));
          open(fmt::format("if ({})", masks_[i]));
          memo_.push_back({});
          line(fmt::format("{} = {};", name, emit(value).text));
          memo_.pop_back();
          close();
        });
        variables_[name] = {name, Value::kAtom, value.type()};
        value = var(name, value.type());
      }
      lanes[i].push_back(value);
    }
  for (int i = 0; i < lanes_; i++) {
    std::vector<Ref> targets = s.targets;
    for (Ref& r : targets)
      for (Expr& e : r.index) e = atLane(e, i);
    inLane(i, lanes[i], [&] {
      if (masks_.empty()) return storeOnce(s, targets, lanes[i]);
      open(fmt::format("if ({})", masks_[i]));
      memo_.push_back({});
      storeOnce(s, targets, lanes[i]);
      memo_.pop_back();
      close();
    });
  }
}

void Body::store(const Store& given) {
  Store s = given;
  for (Expr& e : s.values) e = now(e);
  for (Ref& r : s.targets)
    for (Expr& e : r.index) e = now(e);
  if (lanes_) return storeLanes(s);
  storeOnce(s, s.targets, s.values);
}

}  // namespace tektite::c_text
