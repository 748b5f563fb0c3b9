#include "fusion/defs.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/facts.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

int64_t product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

/// A load whose index is a sum of coordinates: what a product reads without a stage in between. Quotients and remainders of a
/// coordinate count too: they go when its axis is split.
bool isSimpleIndex(const std::vector<Expr>& index) {
  for (const Expr& e : index)
    for (const auto& [term, coefficient] : linearOf(e).terms) {
      if (term.as<Var>()) continue;
      const Apply* a = term.as<Apply>();
      if (!a || (a->op != Op::FloorDiv && a->op != Op::Mod) || !a->args[1].as<Imm>()) return false;
      for (const auto& [inner, c] : linearOf(a->args[0]).terms)
        if (!inner.as<Var>()) return false;
    }
  return true;
}
bool isAffine(const std::vector<Expr>& index) {
  for (const Expr& e : index)
    for (const auto& [term, coefficient] : linearOf(e).terms)
      if (!term.as<Var>()) return false;
  return true;
}

class DefBuilder {
 public:
  DefBuilder(const Graph& g, const AccessOf& access) : g_(g), access_(access) {}

  std::variant<Defs, Refusal> run() {
    list().reserve(g_.nodes.size() * 2);
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
      if (!add(n)) return refusal_;
    for (const Value& v : g_.outputs) {
      out_.ofOutput.push_back(of_.at(v));
      list()[of_.at(v)].output = true;
    }
    decide();
    return std::move(out_);
  }

 private:
  const Graph& g_;
  const AccessOf& access_;
  Defs out_;
  Refusal refusal_;
  std::map<Value, int> of_;
  std::map<int, int> simple_;  // a product's operand -> what it reads instead
  std::set<int> widened_;      // operands of products that are computed where they are read
  int made_ = 0;
  std::vector<Def>& list() { return out_.list; }

  bool add(int n) {
    const Node& node = g_.nodes[n];
    if (node.as<Input>() || node.as<Const>()) {
      Def d = base(Value{n, 0});
      if ((d.scalar = scalarConstant(node))) d.kind = Def::Scalar;
      of_[Value{n, 0}] = push(std::move(d));
      return true;
    }
    if (node.as<Update>()) {
      addScatter(n);
      return true;
    }
    if (!access_[n]) {
      const bool control = node.as<Branch>() || node.as<Loop>() || node.as<Scan>();
      refusal_ = {control ? Reason::ControlFlow : Reason::OpaqueCall, 0, 0, node.origin};
      return false;
    }
    addAccess(n);
    return true;
  }

  void addAccess(int n) {
    const Node& node = g_.nodes[n];
    const Access& a = *access_[n];
    std::vector<int> operands;
    for (const Value& v : node.operands) operands.push_back(of_.at(v));
    if (a.product)
      for (int& d : operands) d = list()[d].kind == Def::Scalar ? spread(d) : simple(d);
    else if (a.combine)
      for (int& d : operands) d = windowed(d, product(a.space) * product(a.reduce));
    const int first = static_cast<int>(list().size());
    for (int r = 0; r < static_cast<int>(node.results.size()); r++) {
      Def d = base(Value{n, r});
      d.kind = a.combine ? Def::Reduced : Def::Point;
      if (!a.combine && a.values[0].as<Imm>()) d.kind = Def::Scalar, d.scalar = a.values[0];
      d.access = access_[n];
      d.operands = operands;
      d.member = r;
      if (a.combine) d.reduction = first;
      of_[Value{n, r}] = push(std::move(d));
    }
  }

  /// The copy of the base; what is stored into it follows as a stage of its own.
  void addScatter(int n) {
    const Node& node = g_.nodes[n];
    Def d = base(Value{n, 0});
    auto copy = std::make_shared<Access>();
    copy->space = d.extents;
    std::vector<Expr> index;
    for (size_t i = 0; i < d.extents.size(); i++)
      index.push_back(d.extents[i] == 1 ? Expr(0) : var(coordinate(static_cast<int>(i))));
    copy->values = {load(operandName(0), d.type, index)};
    copy->movesData = true;
    d.kind = Def::Point;
    d.access = copy;
    d.scatter = node.as<Update>();
    d.stored = true;
    for (const Value& v : node.operands) d.operands.push_back(of_.at(v));
    of_[Value{n, 0}] = push(std::move(d));
  }

  Def base(Value v) const {
    const TensorType& t = g_.type(v);
    std::string name = "v" + std::to_string(v.node);
    if (v.result) name += "_" + std::to_string(v.result);
    return {.value = v, .name = std::move(name), .type = t.dtype, .extents = t.extents()};
  }
  int push(Def d) {
    list().push_back(std::move(d));
    return static_cast<int>(list().size()) - 1;
  }

  /// A constant of one value that a product reads as a tensor: from memory, like any other.
  int spread(int d) {
    if (const auto it = simple_.find(d); it != simple_.end()) return it->second;
    Def tensor = list()[d];
    const bool constant = g_.nodes[tensor.value.node].as<Const>();
    if (!constant)
      tensor.access = std::make_shared<const Access>(
          Access{.space = tensor.extents, .values = {tensor.scalar}});
    tensor.kind = constant ? Def::Leaf : Def::Point;
    tensor.stored = !constant;
    if (!constant) tensor.name = "m" + std::to_string(made_++);
    return simple_[d] = push(std::move(tensor));
  }
  /// What a product reads in place of operand `d`: the same through views in range, else a stored value.
  int simple(int d) {
    if (const auto it = simple_.find(d); it != simple_.end()) return it->second;
    const int made = makeSimple(d);
    return simple_[d] = made;
  }
  int makeSimple(int d) {
    if (list()[d].kind != Def::Point) return d;
    if (list()[d].access->movesData && list()[d].operands.size() == 1) {
      const Load* l = list()[d].access->values[0].as<Load>();
      if (l && isSimpleIndex(l->index)) {
        const int from = simple(list()[d].operands[0]);
        return from == list()[d].operands[0] ? d : clone(d, from);
      }
      if (const int window = factor(d); window >= 0) return window;
    }
    if (widens(d) && narrowest(d) < bytes(list()[d].type))
      markWidened(d);
    else
      list()[d].stored = true;
    return d;
  }
  /// Is it a constant, converted and scaled? A product does that to what it loads: the constant stays as small as it is.
  bool widens(int d) const {
    const Def& v = out_.list[d];
    if (v.kind == Def::Scalar) return true;
    if (v.kind == Def::Leaf) return g_.nodes[v.value.node].as<Const>() != nullptr;
    if (v.kind != Def::Point || v.scatter) return false;
    bool simple = true;
    visit(v.access->values[0], [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      const Load* l = e.as<Load>();
      if (a && isFloat(e.type()) == isFloat(v.type) && e.type() != DType::I64)
        simple &= a->op == Op::Mul || a->op == Op::Sub || a->op == Op::Add;
      if (l) simple &= isAffine(l->index);
    });
    return simple && std::ranges::all_of(v.operands, [&](int o) { return o < 0 || widens(o); });
  }
  void markWidened(int d) {
    if (list()[d].kind != Def::Point) return;
    widened_.insert(d);
    for (int o : list()[d].operands)
      if (o >= 0) markWidened(o);
  }
  int narrowest(int d) const {
    const Def& v = out_.list[d];
    int least = v.kind == Def::Scalar ? 8 : bytes(v.type);
    for (int o : v.operands)
      if (o >= 0 && out_.list[o].elements() == v.elements()) least = std::min(least, narrowest(o));
    return least;
  }
  /// A reduction over overlapping windows reads a copy with the fill in place: no guard in its inner loop.
  int windowed(int d, int64_t points) {
    const Def& v = list()[d];
    if (v.kind != Def::Point || !v.access->movesData || v.operands.size() != 1 ||
        v.access->values[0].as<Load>())
      return d;
    if (list()[v.operands[0]].elements() * 2 > points) return d;
    const int window = factor(d);
    return window >= 0 ? window : d;
  }
  int clone(int d, int operand) {
    Def copy = list()[d];
    copy.operands = {operand};
    copy.name = "m" + std::to_string(made_++);
    return push(std::move(copy));
  }

  /// A conjunction of bounds on `index`, one component each, as one of bounds on `values`, which stand for the components; null if it isn't one.
  static Expr inTermsOf(const Expr& guard, const std::vector<Expr>& index,
                        const std::vector<Expr>& values) {
    const Apply* a = guard.as<Apply>();
    if (!a || a->args.size() != 2) return {};
    if (a->op == Op::And) {
      const Expr left = inTermsOf(a->args[0], index, values),
                 right = inTermsOf(a->args[1], index, values);
      return left && right ? logicalAnd(left, right) : Expr();
    }
    if ((a->op != Op::Le && a->op != Op::Lt) || a->args[0].type() != DType::I64) return {};
    const Linear apart = plus(linearOf(a->args[1]), linearOf(a->args[0]), -1);  // 0 <= it, or 0 <
    for (size_t i = 0; i < index.size(); i++)
      for (const int64_t sign : {1, -1}) {
        const Linear component = linearOf(index[i]);
        const Linear rest = plus(apart, component, -sign);
        if (component.terms.empty() || !rest.terms.empty()) continue;
        return apply(a->op, {Expr(0), values[i] * Expr(sign) + Expr(rest.constant)});
      }
    return {};
  }
  /// Splits select(guard, source[affine], fill) into a stored box around all that is read, and a view of the box that is in range.
  int factor(int d) {
    const Apply* a = list()[d].access->values[0].as<Apply>();
    if (!a || a->op != Op::Select || !a->args[2].as<Imm>()) return -1;
    const Load* l = a->args[1].as<Load>();
    const Def view = list()[d], source = list()[view.operands[0]];
    if (!l || !isAffine(l->index)) return -1;
    Ranges ranges, boxRanges;
    for (size_t i = 0; i < view.extents.size(); i++)
      ranges[coordinate(static_cast<int>(i))] = {0, std::max<int64_t>(view.extents[i] - 1, 0)};
    auto box = std::make_shared<Access>();
    std::vector<Expr> inner, outer;
    for (size_t i = 0; i < l->index.size(); i++) {
      const Interval bounds = boundsOf(l->index[i], ranges);
      box->space.push_back(bounds.high - bounds.low + 1);
      const Expr at = box->space.back() == 1 ? Expr(0) : var(coordinate(static_cast<int>(i)));
      boxRanges[coordinate(static_cast<int>(i))] = {0, box->space.back() - 1};
      inner.push_back(simplify(at + Expr(bounds.low), boxRanges));
      outer.push_back(simplify(l->index[i] - Expr(bounds.low), ranges));
    }
    Expr inside = inRange(inner, source.extents, boxRanges);
    if (!(inRange(l->index, source.extents, ranges) ==
          a->args[0])) {  // less than the source's domain
      const Expr guard = inTermsOf(a->args[0], l->index, inner);
      if (!guard) return -1;
      inside = simplify(logicalAnd(inside, guard), boxRanges);
    }
    box->values = {select(inside, load(operandName(0), source.type, inner), a->args[2])};
    box->slots = slotsOf(box->values[0]);
    box->movesData = true;
    Def stored{.kind = Def::Point,
               .value = view.value,
               .name = "m" + std::to_string(made_++),
               .type = view.type,
               .extents = box->space,
               .access = box,
               .operands = {view.operands[0]},
               .stored = true};
    auto window = std::make_shared<Access>();
    window->space = view.extents;
    window->movesData = true;
    window->values = {load(operandName(0), view.type, outer)};
    window->slots = slotsOf(window->values[0]);
    const int boxDef = push(std::move(stored));
    return push({.kind = Def::Point,
                 .value = view.value,
                 .name = "m" + std::to_string(made_++),
                 .type = view.type,
                 .extents = view.extents,
                 .access = window,
                 .operands = {boxDef}});
  }

  // ---- stored or inlined
  struct Use {
    int sink;
    int paths;  // at how many places, as far as views tell them apart
  };

  void decide() {
    const int n = static_cast<int>(list().size());
    std::vector<std::vector<int>> users(n);
    std::vector<double> full(
        n, 0);  // slots of one element with everything up to leaves and reductions inlined
    std::vector<bool> epilogue(n, false);  // follows a reduction at its own coordinates, alone
    for (int i = 0; i < n; i++)
      for (int o : list()[i].operands)
        if (users[o].empty() || users[o].back() != i) users[o].push_back(i);
    for (int i = 0; i < n; i++) {
      const Def& d = list()[i];
      if (d.kind == Def::Leaf) full[i] = 1;
      if (d.kind == Def::Reduced) full[i] = 1;
      if (d.kind != Def::Point) continue;
      full[i] = d.access->slots;
      for (int o : d.operands) {
        full[i] = std::min(full[i] + (list()[o].stored ? 1 : full[o]), 1e12);
        if (!d.access->movesData && list()[o].extents == d.extents && users[o].size() == 1)
          epilogue[i] = epilogue[i] || list()[o].kind == Def::Reduced || epilogue[o];
      }
    }
    std::vector<std::vector<Use>> uses(n);
    for (int i = n - 1; i >= 0; i--) {
      Def& d = list()[i];
      if (d.kind == Def::Leaf || d.kind == Def::Scalar) continue;
      uses[i] = usesOf(users[i], uses);
      if (d.kind == Def::Reduced || d.output) d.stored = true;
      if (!d.stored && !uses[i].empty() && !widened_.count(i))
        d.stored = worthStoring(d, uses[i], full[i], epilogue[i]);
    }
  }
  std::vector<Use> usesOf(const std::vector<int>& users,
                          const std::vector<std::vector<Use>>& uses) {
    std::map<int, std::pair<int, int>> paths;  // sink -> most through maps, sum through views
    for (int u : users) {
      const Def& d = list()[u];
      if (d.stored || d.kind == Def::Reduced) {
        auto& p = paths[d.kind == Def::Reduced ? d.reduction : u];
        p.first = std::max(p.first, 1);
        continue;
      }
      for (const Use& use : uses[u]) {
        auto& p = paths[use.sink];
        if (d.access->movesData)
          p.second = std::min(p.second + use.paths, 1 << 20);
        else
          p.first = std::max(p.first, use.paths);
      }
    }
    std::vector<Use> out;
    for (const auto& [sink, p] : paths) out.push_back({sink, p.first + p.second});
    return out;
  }
  bool worthStoring(const Def& d, const std::vector<Use>& uses, double full, bool epilogue) {
    if (d.access->movesData && d.operands.size() <= 1) return false;
    if (g_.nodes[d.value.node].as<Concat>() && d.operands.size() >= 4)
      return true;  // else a chain of choices at every point
    if (d.access->movesData && d.access->slots < 8) return false;
    const double elements = static_cast<double>(d.elements());
    if (uses.size() >= 2 && epilogue) return true;
    double reads = 0;
    for (const Use& u : uses) reads += static_cast<double>(list()[u.sink].points()) * u.paths;
    if (uses.size() == 1 && uses[0].paths == 1 && reads <= elements) return false;
    return reads * full > elements * (full + 1.5) + reads * 1.1;
  }
};

}  // namespace

int64_t Def::elements() const { return product(extents); }
int64_t Def::points() const {
  return kind == Reduced ? product(extents) * product(access->reduce) : product(extents);
}
int Defs::find(const std::string& name) const {
  for (size_t i = 0; i < list.size(); i++)
    if (list[i].name == name) return static_cast<int>(i);
  return -1;
}

std::variant<Defs, Refusal> defsOf(const Graph& body, const AccessOf& access) {
  return DefBuilder(body, access).run();
}

}  // namespace tektite
