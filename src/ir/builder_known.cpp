#include <algorithm>
#include <cmath>

#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/scalar_eval.h"
#include "support/check.h"
#include "support/overloaded.h"

// Shape arithmetic: what small tensors computed from shapes are, as expressions over dims. Integers of every type are held as
// i64 (nothing of a shape wraps), floats as f64 expressions, constants of them rounded to their type.
namespace tektite {
namespace {

constexpr int64_t kMostElements = 64;
using Elements = std::vector<Expr>;

struct Rational {  // num / den, den > 0
  Expr num;
  int64_t den;
};

/// A float expression as a fraction of dims: f32(N) * 0.5 is N / 2.
std::optional<Rational> fraction(const Expr& e) {
  if (const Imm* i = e.as<Imm>()) {
    for (int64_t den = 1; den <= 1 << 20; den *= 2)
      if (const double n = i->real * static_cast<double>(den);
          std::fabs(n) < 0x1p40 && n == std::floor(n))
        return Rational{Expr(static_cast<int64_t>(n)), den};
    return std::nullopt;
  }
  if (const Cast* c = e.as<Cast>(); c && c->arg.type() == DType::I64) return Rational{c->arg, 1};
  const Apply* a = e.as<Apply>();
  if (!a || a->args.size() != 2) return std::nullopt;
  const auto x = fraction(a->args[0]), y = fraction(a->args[1]);
  if (!x || !y) return std::nullopt;
  switch (a->op) {
    case Op::Add:
      return Rational{normalDim(x->num * Expr(y->den) + y->num * Expr(x->den)), x->den * y->den};
    case Op::Sub:
      return Rational{normalDim(x->num * Expr(y->den) - y->num * Expr(x->den)), x->den * y->den};
    case Op::Mul: return Rational{normalDim(x->num * y->num), x->den * y->den};
    case Op::Div: {
      const auto by = asInteger(y->num);
      if (!by || *by <= 0) return std::nullopt;
      return Rational{normalDim(x->num * Expr(y->den)), x->den * *by};
    }
    default: return std::nullopt;
  }
}

/// The integer that a float expression becomes, where it is one of dims.
Expr toInteger(const Expr& e, const Ranges& dims) {
  if (const Imm* i = e.as<Imm>()) return immInteger(DType::I64, saturateTo(DType::I64, i->real));
  const Apply* a = e.as<Apply>();
  const bool rounds = a && a->args.size() == 1;
  const auto f = fraction(rounds ? a->args[0] : e);
  if (!f) return {};
  if (f->den == 1) return f->num;
  if (rounds && a->op == Op::Ceil)
    return normalDim(-1 * floorDiv(normalDim(-1 * f->num), Expr(f->den)));
  if ((rounds && a->op == Op::Floor) || nonNegative(f->num, dims))
    return rounds && a->op == Op::Round ? Expr() : normalDim(floorDiv(f->num, Expr(f->den)));
  return {};
}

/// Decides a comparison of dims by their ranges; the comparison itself where it can't.
Expr compared(Op op, const Expr& a, const Expr& b, const Ranges& dims) {
  const Expr less = normalDim(b - a);  // > 0 where a < b
  if (op == Op::Eq) {
    if (isConstant(less, 0)) return boolean(true);
    if (nonNegative(less - 1, dims) || nonNegative(normalDim(a - b) - 1, dims))
      return boolean(false);
    return eq(a, b);
  }
  const int64_t strict = op == Op::Lt;
  if (nonNegative(less - Expr(strict), dims)) return boolean(true);
  if (nonNegative(normalDim(a - b) - Expr(1 - strict), dims)) return boolean(false);
  return op == Op::Lt ? lt(a, b) : le(a, b);
}

/// Evaluates bodies over known elements. Null: not known.
class Evaluator {
 public:
  Evaluator(const std::unordered_map<std::string, Expr>& env, const Ranges& dims)
      : env_(env), dims_(dims) {}
  std::function<Expr(const Load&, const std::vector<Expr>& index)> load;

  Expr of(const Expr& e) {
    if (const auto it = done_.find(e.hash()); it != done_.end()) return it->second;
    Expr out = std::visit(
        overloaded{[&](const Imm& i) {
                     return isFloat(e.type())         ? imm(DType::F64, i.real)
                            : e.type() == DType::Bool ? e
                                                      : Expr(i.integer);
                   },
                   [&](const Var& v) {
                     const auto it = env_.find(v.name);
                     return it == env_.end() ? e : it->second;
                   },
                   [&](const Load& l) { return loaded(l); },
                   [&](const Cast& c) { return converted(e.type(), of(c.arg), c.arg.type()); },
                   [&](const Apply& a) { return applied(a, e); }},
        e->kind);
    done_[e.hash()] = out;
    return out;
  }

 private:
  Expr loaded(const Load& l) {
    std::vector<Expr> index;
    for (const Expr& e : l.index) index.push_back(of(e));
    for (const Expr& e : index)
      if (!e || !asInteger(e)) return {};
    return load ? load(l, index) : Expr();
  }
  Expr converted(DType to, const Expr& e, DType from) {
    if (!e) return e;
    if (isFloat(to)) {
      if (const Imm* i = e.as<Imm>())
        return imm(DType::F64,
                   roundTo(to, isFloat(from) ? i->real : static_cast<double>(i->integer)));
      return cast(DType::F64, e);
    }
    if (to == DType::Bool) {
      if (e.type() == DType::Bool) return e;
      if (const Imm* i = e.as<Imm>())
        return boolean(isFloat(from) ? i->real != 0 : i->integer != 0);
      return isFloat(from) ? Expr() : logicalNot(compared(Op::Eq, e, 0, dims_));
    }
    if (isFloat(from)) return toInteger(e, dims_);
    if (e.type() == DType::Bool) return cast(DType::I64, e);
    return asInteger(e) ? Expr(wrapTo(to, *asInteger(e))) : e;
  }
  Expr applied(const Apply& a, const Expr& whole) {
    if (a.op == Op::Select) {
      const Expr c = of(a.args[0]);
      if (!c) return {};
      if (const auto value = asInteger(c)) return of(a.args[*value ? 1 : 2]);
      const Expr x = of(a.args[1]), y = of(a.args[2]);
      return x && y ? select(c, x, y) : Expr();
    }
    std::vector<Expr> args;
    bool constant = true;
    for (const Expr& x : a.args) {
      args.push_back(of(x));
      if (!args.back()) return {};
      constant = constant && args.back().as<Imm>();
    }
    const DType t = a.args[0].type();
    if (constant) return folded(a.op, t, whole.type(), args);
    if (isFloat(t)) return isFloat(whole.type()) ? apply(a.op, args) : Expr();
    if (t == DType::Bool) return apply(a.op, args);
    return integer(a.op, args);
  }
  static Expr folded(Op op, DType t, DType result, const std::vector<Expr>& args) {
    if (op == Op::ToBits || op == Op::FromBits) return {};
    if (!isFloat(t)) {
      std::vector<int64_t> values;
      for (const Expr& e : args) values.push_back(e.as<Imm>()->integer);
      const int64_t value = evalInteger(op, t, values);
      return result == DType::Bool ? boolean(value) : Expr(value);
    }
    std::vector<double> values;
    for (const Expr& e : args) values.push_back(e.as<Imm>()->real);
    const double value = evalFloat(op, values);
    return result == DType::Bool ? boolean(value != 0) : imm(DType::F64, roundTo(t, value));
  }
  Expr integer(Op op, const std::vector<Expr>& x) {
    switch (op) {
      case Op::Lt:
      case Op::Le:
      case Op::Eq: return compared(op, x[0], x[1], dims_);
      case Op::Max:
      case Op::Min: {
        const bool first = nonNegative(normalDim(x[0] - x[1]), dims_),
                   second = nonNegative(normalDim(x[1] - x[0]), dims_);
        if (first || second) return x[(op == Op::Max) == first ? 0 : 1];
        return apply(op, x);
      }
      case Op::TruncDiv:
      case Op::TruncMod:
        if (!nonNegative(x[0], dims_) || !nonNegative(x[1], dims_)) return {};
        return normalDim(apply(op == Op::TruncDiv ? Op::FloorDiv : Op::Mod, x));
      case Op::Abs: return nonNegative(x[0], dims_) ? x[0] : Expr();
      case Op::Sign: return nonNegative(x[0] - 1, dims_) ? Expr(1) : Expr();
      case Op::Neg: return normalDim(-1 * x[0]);
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::FloorDiv:
      case Op::Mod: return normalDim(apply(op, x));
      default: return {};
    }
  }

  const std::unordered_map<std::string, Expr>& env_;
  const Ranges& dims_;
  std::unordered_map<Hash, Expr> done_;
};

// ---- the tensors

int64_t flatten(const std::vector<int64_t>& at, const std::vector<int64_t>& extents) {
  int64_t flat = 0;
  for (size_t i = 0; i < at.size(); i++) {
    if (at[i] < 0 || at[i] >= extents[i]) return -1;
    flat = flat * extents[i] + at[i];
  }
  return flat;
}

Expr literal(const Const& c, DType t, int64_t at) {
  if (c.splat)
    return isFloat(t)         ? imm(DType::F64, c.splat.as<Imm>()->real)
           : t == DType::Bool ? c.splat
                              : Expr(c.splat.as<Imm>()->integer);
  if (isFloat(t)) return imm(DType::F64, loadFloat(t, c.data->data, at));
  const int64_t value = loadInteger(t, c.data->data, at);
  return t == DType::Bool ? boolean(value != 0) : Expr(value);
}

class Learner {
 public:
  Learner(const Graph& g, const std::map<Value, Elements>& known)
      : g_(g), known_(known), dims_(g.ranges()) {}

  Elements of(const Node& n) {
    const TensorType& t = n.results[0];
    if (!t.isStatic() || t.elements() > kMostElements) return {};
    for (Value v : n.operands)
      if (!known_.count(v)) return {};
    extents_ = t.extents();
    const Elements none;
    return std::visit(
        overloaded{
            [&](const Input&) { return none; }, [&](const Const& c) { return constant(c, t); },
            [&](const Map& m) { return map(n, m); }, [&](const Reduce& r) { return reduce(n, r); },
            [&](const Contract&) { return none; }, [&](const View& v) { return view(n, v); },
            [&](const Gather& v) { return view(n, v); },
            [&](const Concat& c) { return concat(n, c); }, [&](const Update&) { return none; },
            [&](const Branch&) { return none; }, [&](const Loop&) { return none; },
            [&](const Scan&) { return none; }, [&](const Call&) { return none; },
            [&](const Group&) { return none; }},
        n.kind);
  }

 private:
  /// `element` at every coordinate; nothing where one isn't known.
  template <class F>
  Elements each(const std::vector<int64_t>& extents, F element) const {
    Elements out;
    int64_t n = 1;
    for (int64_t e : extents) n *= e;
    std::vector<int64_t> at(extents.size());
    for (int64_t flat = 0; flat < n; flat++) {
      int64_t rest = flat;
      for (size_t i = at.size(); i-- > 0; rest /= extents[i]) at[i] = rest % extents[i];
      out.push_back(element(at));
      if (!out.back()) return {};
    }
    return out;
  }
  Elements constant(const Const& c, const TensorType& t) const {
    if (c.data && !c.data->data) return {};
    return each(extents_, [&](const std::vector<int64_t>& at) {
      return literal(c, t.dtype, flatten(at, extents_));
    });
  }
  std::unordered_map<std::string, Expr> coordinates(const std::vector<int64_t>& at) const {
    std::unordered_map<std::string, Expr> env;
    for (size_t i = 0; i < at.size(); i++) env[coordinate(static_cast<int>(i))] = Expr(at[i]);
    return env;
  }
  Expr broadcastElement(Value v, std::vector<int64_t> at) const {
    const std::vector<int64_t> extents = g_.type(v).extents();
    for (size_t i = 0; i < at.size(); i++)
      if (extents[i] == 1) at[i] = 0;
    return known_.at(v)[flatten(at, extents)];
  }
  Elements map(const Node& n, const Map& m) const {
    return each(extents_, [&](const std::vector<int64_t>& at) {
      auto env = coordinates(at);
      for (size_t i = 0; i < n.operands.size(); i++)
        env[operandName(static_cast<int>(i))] = broadcastElement(n.operands[i], at);
      return Evaluator(env, dims_).of(m.body);
    });
  }
  Elements view(const Node& n, const View& v) const {
    const std::vector<int64_t> from = g_.type(n.operands[0]).extents();
    return each(extents_, [&](const std::vector<int64_t>& at) -> Expr {
      const auto env = coordinates(at);
      Evaluator eval(env, dims_);
      eval.load = [&](const Load& l, const std::vector<Expr>& index) {
        const Value operand = n.operands[std::stoul(l.buffer.substr(1))];
        std::vector<int64_t> where;
        for (const Expr& e : index) where.push_back(*asInteger(e));
        const int64_t flat = flatten(where, g_.type(operand).extents());
        return flat < 0 ? Expr() : known_.at(operand)[flat];
      };
      const Expr fill = v.fill ? literal(Const{nullptr, v.fill}, v.fill.type(), 0) : Expr();
      if (v.guard) {
        const Expr guard = eval.of(v.guard);
        if (!guard || !asInteger(guard)) return {};
        if (!*asInteger(guard)) return fill;
      }
      std::vector<int64_t> where;
      for (const Expr& e : v.index) {
        const Expr value = eval.of(e);
        if (!value || !asInteger(value)) return {};
        where.push_back(*asInteger(value));
      }
      const int64_t flat = flatten(where, from);
      return flat < 0 ? fill : known_.at(n.operands[0])[flat];
    });
  }
  Elements concat(const Node& n, const Concat& c) const {
    return each(extents_, [&](std::vector<int64_t> at) -> Expr {
      for (Value v : n.operands) {
        const std::vector<int64_t> extents = g_.type(v).extents();
        if (at[c.axis] < extents[c.axis]) return known_.at(v)[flatten(at, extents)];
        at[c.axis] -= extents[c.axis];
      }
      return {};
    });
  }
  Elements reduce(const Node& n, const Reduce& r) const {
    if (n.operands.size() != 1 || !isInteger(n.results[0].dtype)) return {};
    const std::vector<int64_t> from = g_.type(n.operands[0]).extents();
    Elements out;
    for (int64_t i = 0; i < n.results[0].elements(); i++)
      out.push_back(Evaluator({}, dims_).of(r.combine.identity[0]));
    const Elements& in = known_.at(n.operands[0]);
    const Elements all = each(from, [&](std::vector<int64_t> at) {
      const Expr& element = in[flatten(at, from)];
      for (int axis : r.axes) at[axis] = 0;
      Expr& state = out[flatten(at, extents_)];
      const std::unordered_map<std::string, Expr> env{{r.combine.left[0], state},
                                                      {r.combine.right[0], element}};
      return state = Evaluator(env, dims_).of(r.combine.result[0]);
    });
    return all.size() == in.size() ? out : Elements{};
  }

  const Graph& g_;
  const std::map<Value, Elements>& known_;
  const Ranges dims_;
  std::vector<int64_t> extents_;
};

}  // namespace

void Builder::learn(Value v) {
  const Node& n = graph.node(v);
  Elements elements = Learner(graph, known_).of(n);
  if (!elements.empty() ||
      (n.results[0].isStatic() && n.results[0].elements() == 0 && !n.as<Input>()))
    known_[v] = std::move(elements);
}

std::optional<std::vector<Expr>> Builder::known(Value v) const {
  const auto it = known_.find(v);
  if (it == known_.end() || isFloat(type(v).dtype)) return std::nullopt;
  return it->second;
}

std::optional<std::vector<double>> Builder::knownNumbers(Value v) const {
  const auto it = known_.find(v);
  if (it == known_.end()) return std::nullopt;
  std::vector<double> out;
  for (const Expr& e : it->second) {
    const Imm* i = e.as<Imm>();
    if (!i) return std::nullopt;
    out.push_back(isFloat(e.type()) ? i->real : static_cast<double>(i->integer));
  }
  return out;
}

Value Builder::fromKnown(const std::vector<Expr>& values, bool scalar, DType type) {
  const bool numbers =
      std::all_of(values.begin(), values.end(), [](const Expr& e) { return e.as<Imm>(); });
  if (scalar) TEKTITE_CHECK(values.size() == 1, "{} values for a scalar", values.size());
  std::vector<Expr> shape;
  if (!scalar) shape.emplace_back(static_cast<int64_t>(values.size()));
  if (!numbers) {
    Expr body = cast(type, values.back());
    for (size_t i = values.size() - 1; i-- > 0;)
      body = select(eq(var("d0"), Expr(static_cast<int64_t>(i))), cast(type, values[i]), body);
    return map(body, {}, shape);
  }
  const auto bytes = std::make_shared<std::vector<char>>(
      values.size() * static_cast<size_t>(tektite::bytes(type)) + 1);
  for (size_t i = 0; i < values.size(); i++) {
    const Expr e = cast(type, values[i]);
    if (isFloat(type))
      storeFloat(type, bytes->data(), static_cast<int64_t>(i), e.as<Imm>()->real);
    else
      storeInteger(type, bytes->data(), static_cast<int64_t>(i), e.as<Imm>()->integer);
  }
  auto data = std::make_shared<ConstData>();
  data->data = bytes->data();
  data->bytes = bytes->size() - 1;
  data->owner = bytes;
  return constant({type, shape}, data);
}

}  // namespace tektite
