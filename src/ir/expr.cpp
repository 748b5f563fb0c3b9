#include "ir/expr.h"

#include <algorithm>
#include <array>

#include "ir/rewriter.h"
#include "ir/scalar_eval.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr OpInfo table[] = {
#define SCALAR_OP(id, name, infix, precedence, arity, rule, slots) \
  {Op::id, name, infix, precedence, arity, TypeRule::rule, slots},
#include "ir/scalar_ops.def"
#undef SCALAR_OP
};

constexpr size_t kMostArguments = 4;

Expr make(std::variant<Imm, Var, Load, Cast, Apply> kind, DType type) {
  Hasher h;
  h.add(static_cast<int>(kind.index())).add(static_cast<int>(type));
  std::visit(overloaded{[&](const Imm& i) { h.add(i.real).add(i.integer); },
                        [&](const Var& v) { h.add(v.name); },
                        [&](const Load& l) {
                          h.add(l.buffer);
                          for (const Expr& e : l.index) h.add(e.hash());
                        },
                        [&](const Cast& c) { h.add(c.arg.hash()); },
                        [&](const Apply& a) {
                          h.add(static_cast<int>(a.op));
                          for (const Expr& e : a.args) h.add(e.hash());
                        }},
             kind);
  return Expr(std::make_shared<const ExprNode>(std::move(kind), type, h.finish()));
}

std::optional<DType> bitsOf(DType t, bool toInteger) {
  for (auto [f, i] :
       {std::pair{DType::F16, DType::I16}, {DType::F32, DType::I32}, {DType::F64, DType::I64}})
    if (t == (toInteger ? f : i)) return toInteger ? i : f;
  return std::nullopt;
}

/// What an application is without any fact about its arguments; null where it stays.
Expr identity(Op op, const std::vector<Expr>& a) {
  const DType t = a[0].type();
  if (op == Op::Select) {
    if (auto c = asInteger(a[0])) return *c ? a[1] : a[2];
    return a[1] == a[2] ? a[1] : Expr();
  }
  if (isFloat(t)) return {};
  if (std::all_of(a.begin(), a.end(), [](const Expr& e) { return e.as<Imm>(); })) {
    std::vector<int64_t> args;
    for (const Expr& e : a) args.push_back(e.as<Imm>()->integer);
    const DType result = *resultType(op, std::vector<DType>(a.size(), t));
    if (!isFloat(result)) return immInteger(result, evalInteger(op, t, args));
  }
  if (a.size() != 2) return {};
  const auto left = asInteger(a[0]), right = asInteger(a[1]);
  switch (op) {
    case Op::Add: {
      if (left == 0) return a[1];
      if (right == 0) return a[0];
      const Apply* inner = a[0].as<Apply>();
      if (right && inner && inner->op == Op::Add)
        if (auto c = asInteger(inner->args[1]))
          return inner->args[0] + immInteger(t, wrapTo(t, *c + *right));
      return {};
    }
    case Op::Sub:
      if (a[0] == a[1]) return immInteger(t, 0);
      return right && isSigned(t)
                 ? a[0] + immInteger(t, evalInteger(Op::Neg, t, std::vector{*right}))
                 : Expr();
    case Op::Mul:
      if (left == 0 || right == 0) return immInteger(t, 0);
      return left == 1 ? a[1] : right == 1 ? a[0] : Expr();
    case Op::FloorDiv:
    case Op::TruncDiv: return right == 1 ? a[0] : Expr();
    case Op::Mod:
    case Op::TruncMod: return right == 1 ? immInteger(t, 0) : Expr();
    case Op::And:
      if (a[0] == a[1]) return a[0];
      if (t != DType::Bool) return {};
      if (left) return *left ? a[1] : a[0];
      return right ? (*right ? a[0] : a[1]) : Expr();
    case Op::Or:
      if (a[0] == a[1]) return a[0];
      if (t != DType::Bool) return {};
      if (left) return *left ? a[0] : a[1];
      return right ? (*right ? a[1] : a[0]) : Expr();
    case Op::Max:
    case Op::Min: return a[0] == a[1] ? a[0] : Expr();
    case Op::Eq:
    case Op::Le: return a[0] == a[1] ? boolean(true) : Expr();
    case Op::Lt: return a[0] == a[1] ? boolean(false) : Expr();
    default: return {};
  }
}

}  // namespace

const OpInfo& info(Op op) { return table[static_cast<int>(op)]; }
std::span<const OpInfo> allOps() { return table; }
const OpInfo* opFromName(std::string_view name) {
  static const auto byName = [] {
    std::unordered_map<std::string_view, const OpInfo*> map;
    for (const OpInfo& i : table) map[i.name] = &i;
    return map;
  }();
  const auto it = byName.find(name);
  return it == byName.end() ? nullptr : it->second;
}

std::optional<DType> resultType(Op op, std::span<const DType> a) {
  const OpInfo& i = info(op);
  if (static_cast<int>(a.size()) != i.arity) return std::nullopt;
  const auto same = [&](size_t from) {
    return std::all_of(a.begin() + from, a.end(), [&](DType t) { return t == a[from]; });
  };
  switch (i.rule) {
    case TypeRule::Num: return same(0) && a[0] != DType::Bool ? std::optional(a[0]) : std::nullopt;
    case TypeRule::Flt: return same(0) && isFloat(a[0]) ? std::optional(a[0]) : std::nullopt;
    case TypeRule::Int: return same(0) && isInteger(a[0]) ? std::optional(a[0]) : std::nullopt;
    case TypeRule::Bit: return same(0) && !isFloat(a[0]) ? std::optional(a[0]) : std::nullopt;
    case TypeRule::Cmp: return same(0) ? std::optional(DType::Bool) : std::nullopt;
    case TypeRule::Sel: return a[0] == DType::Bool && same(1) ? std::optional(a[1]) : std::nullopt;
    case TypeRule::Tst: return isFloat(a[0]) ? std::optional(DType::Bool) : std::nullopt;
    case TypeRule::ToBits: return bitsOf(a[0], true);
    case TypeRule::FromBits: return bitsOf(a[0], false);
  }
  return std::nullopt;
}

Expr::Expr(int64_t value) : Expr(immInteger(DType::I64, value)) {}

Expr imm(DType type, double value) {
  return isFloat(type) ? make(Imm{roundTo(type, value), 0}, type)
                       : immInteger(type, saturateTo(type, value));
}
Expr immInteger(DType type, int64_t value) {
  static const std::vector<Expr> small = [] {  // indices are full of them
    std::vector<Expr> out;
    for (int64_t i = 0; i < 256; i++) out.push_back(make(Imm{0, i}, DType::I64));
    return out;
  }();
  if (type == DType::I64 && value >= 0 && value < static_cast<int64_t>(small.size()))
    return small[static_cast<size_t>(value)];
  return isFloat(type) ? imm(type, static_cast<double>(value))
                       : make(Imm{0, wrapTo(type, value)}, type);
}
Expr var(std::string name, DType type) { return make(Var{std::move(name)}, type); }
Expr load(std::string buffer, DType type, std::vector<Expr> index) {
  return make(Load{std::move(buffer), std::move(index)}, type);
}
Expr cast(DType to, Expr arg) {
  if (arg.type() == to) return arg;
  if (const Imm* i = arg.as<Imm>()) {
    if (!isFloat(arg.type()) && !isFloat(to)) return immInteger(to, i->integer);
    if (isFloat(arg.type())) return imm(to, i->real);
    const double value = arg.type() == DType::U64
                             ? static_cast<double>(static_cast<uint64_t>(i->integer))
                             : static_cast<double>(i->integer);
    return imm(to, value);
  }
  return make(Cast{std::move(arg)}, to);
}
Expr apply(Op op, std::vector<Expr> args) {
  std::array<DType, kMostArguments> types;
  const size_t n = std::min(args.size(), kMostArguments);
  for (size_t i = 0; i < n; i++) types[i] = args[i].type();
  const auto type =
      args.size() == n ? resultType(op, std::span(types).first(n)) : std::optional<DType>();
  if (!type) {
    std::string found;
    for (const Expr& e : args)
      found += fmt::format("{}{} {}", found.empty() ? "" : ", ", name(e.type()), toText(e));
    TEKTITE_CHECK(false, "{} doesn't take ({})", info(op).name, found);
  }
  if (Expr e = identity(op, args)) return e;
  return make(Apply{op, std::move(args)}, *type);
}

std::optional<int64_t> asInteger(const Expr& e) {
  const Imm* i = e.as<Imm>();
  return i && !isFloat(e.type()) ? std::optional(i->integer) : std::nullopt;
}
bool isConstant(const Expr& e, int64_t value) { return asInteger(e) == value; }

Expr Rewriter::operator()(const Expr& e) {
  if (!e) return e;
  if (const size_t at = seen_.find(e.hash()); at != HashNumbers::kNone) return done_[at];
  const auto all = [&](const std::vector<Expr>& list, bool& changed) {
    std::vector<Expr> out;  // empty as long as nothing changes
    for (size_t i = 0; i < list.size(); i++) {
      Expr x = (*this)(list[i]);
      if (!changed && x.get() == list[i].get()) continue;
      if (!changed) {
        out.reserve(list.size());
        out.assign(list.begin(), list.begin() + static_cast<long>(i));
        changed = true;
      }
      out.push_back(std::move(x));
    }
    return out;
  };
  bool changed = false, folded = false;
  Expr now =
      std::visit(overloaded{[&](const Imm&) { return e; }, [&](const Var&) { return e; },
                            [&](const Load& l) {
                              auto index = all(l.index, changed);
                              return changed ? load(l.buffer, e.type(), std::move(index)) : e;
                            },
                            [&](const Cast& c) {
                              const Expr arg = (*this)(c.arg);
                              if (arg.get() == c.arg.get()) return e;
                              Expr made = cast(e.type(), arg);
                              folded = made.get() == arg.get();
                              return made;
                            },
                            [&](const Apply& a) {
                              auto args = all(a.args, changed);
                              if (!changed) return e;
                              std::array<const ExprNode*, kMostArguments> given{};
                              for (size_t i = 0; i < args.size(); i++) given[i] = args[i].get();
                              Expr made = apply(a.op, std::move(args));
                              folded = std::ranges::count(given, made.get()) > 0;
                              return made;
                            }},
                 e->kind);
  if (!folded)  // x + 0 is x, which was replaced already
    if (Expr r = replace_(e, now)) now = std::move(r);
  seen_.add(e.hash());
  if (done_.empty()) done_.reserve(8);
  done_.push_back(now);
  return now;
}

Rewriter substituting(const std::unordered_map<std::string, Expr>& variables) {
  return Rewriter([&variables](const Expr& was, const Expr&) -> Expr {
    // all at once: what comes in is not replaced again
    if (const Var* v = was.as<Var>())
      if (const auto it = variables.find(v->name); it != variables.end()) return it->second;
    return {};
  });
}

static bool isLeaf(const Expr& e) { return e.as<Imm>() || e.as<Var>(); }

Expr rewrite(const Expr& root, const std::function<Expr(const Expr&)>& replace) {
  if (isLeaf(root)) {
    Expr now = replace(root);
    return now ? now : root;
  }
  return Rewriter([&](const Expr&, const Expr& now) { return replace(now); })(root);
}

Expr substitute(const Expr& root, const std::unordered_map<std::string, Expr>& variables) {
  if (root.as<Imm>()) return root;
  return substituting(variables)(root);
}

void Walker::operator()(const Expr& e) {
  if (!e || seen_.find(e.hash()) != HashNumbers::kNone) return;
  seen_.add(e.hash());
  std::visit(overloaded{[](const Imm&) {}, [](const Var&) {},
                        [&](const Load& l) {
                          for (const Expr& x : l.index) (*this)(x);
                        },
                        [&](const Cast& c) { (*this)(c.arg); },
                        [&](const Apply& a) {
                          for (const Expr& x : a.args) (*this)(x);
                        }},
             e->kind);
  see_(e);
}

void visit(const Expr& root, const std::function<void(const Expr&)>& see) {
  if (isLeaf(root)) return see(root);
  Walker([&see](const Expr& e) { see(e); })(root);
}

std::vector<std::string> freeVars(const Expr& root) {
  std::vector<std::string> out;
  visit(root, [&](const Expr& e) {
    if (const Var* v = e.as<Var>()) out.push_back(v->name);
  });
  return out;
}

std::vector<Expr> loadsOf(const Expr& root) {
  std::vector<Expr> out;
  visit(root, [&](const Expr& e) {
    if (e.as<Load>()) out.push_back(e);
  });
  return out;
}

double slotsOf(const Expr& root) {
  double slots = 0;
  visit(root, [&](const Expr& e) {
    if (const Apply* a = e.as<Apply>()) slots += info(a->op).slots;
    if (e.as<Cast>()) slots += 1;
  });
  return slots;
}

}  // namespace tektite
