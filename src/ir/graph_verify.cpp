#include <algorithm>
#include <set>

#include "ir/bytes.h"
#include "ir/dims.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

/// One graph's rules. Messages: `verifier: node %5: what was found (G2)`.
class Verifier {
 public:
  Verifier(const Graph& g, const Graph& outermost, bool inGroup)
      : g_(g),
        dims_(outermost.dims),
        ranges_(outermost.ranges()),
        outermost_(outermost),
        inGroup_(inGroup) {}

  void run() {
    std::set<std::string> names;
    for (at_ = 0; at_ < static_cast<int>(g_.nodes.size()); at_++) {
      const Node& n = g_.nodes[at_];
      operands(n);
      for (const TensorType& t : n.results)
        for (const Expr& e : t.shape) {
          require(e && e.type() == DType::I64, 15, "a shape with an extent that is no i64");
          expression(e, {}, 15, "a shape");
          require(!asInteger(e) || *asInteger(e) >= 0, 15, "{} has a negative extent", toText(t));
        }
      if (n.as<Input>() && !n.name.empty())
        require(names.insert(n.name).second, 15, "a second input named '{}'", n.name);
      kind(n);
    }
    at_ = -1;
    for (Value v : g_.outputs)
      require(v.node >= 0 && v.node < static_cast<int>(g_.nodes.size()) && v.result >= 0 &&
                  v.result < static_cast<int>(g_.nodes[v.node].results.size()),
              9, "output {} of node {} does not exist", v.result, v.node);
    require(g_.outputNames.empty() || g_.outputNames.size() == g_.outputs.size(), 9,
            "{} names for {} outputs", g_.outputNames.size(), g_.outputs.size());
  }

 private:
  template <class... Args>
  void require(bool holds, int rule, fmt::format_string<Args...> format, Args&&... args) const {
    if (holds) return;
    const std::string place = at_ < 0 ? "graph" : fmt::format("node %{}", at_);
    throw InternalError(fmt::format("verifier: {}: {} (G{})", place,
                                    fmt::format(format, std::forward<Args>(args)...), rule));
  }

  const TensorType& type(Value v) const { return g_.type(v); }
  const TensorType& in(const Node& n, int i) const { return g_.type(n.operands[i]); }

  void operands(const Node& n) const {
    require(!n.results.empty(), 1, "no result");
    for (Value v : n.operands) {
      require(v.node >= 0 && v.node < at_, 1, "operand %{} is not defined before its use", v.node);
      require(v.result >= 0 && v.result < static_cast<int>(g_.nodes[v.node].results.size()), 1,
              "operand %{} has no result {}", v.node, v.result);
    }
  }
  void count(const Node& n, size_t operands, size_t results) const {
    require(n.operands.size() == operands, 1, "{} operands, expected {}", n.operands.size(),
            operands);
    require(n.results.size() == results, 1, "{} results, expected {}", n.results.size(), results);
  }

  /// Every variable is a dim or one of `known`, of the right type.
  void expression(const Expr& e, const std::vector<std::pair<std::string, DType>>& known, int rule,
                  std::string_view where) const {
    visit(e, [&](const Expr& x) {
      const Var* v = x.as<Var>();
      if (!v) return;
      if (dims_.count(v->name))
        return require(x.type() == DType::I64, 7, "dim {} as {} in {}", v->name, name(x.type()),
                       where);
      for (const auto& [name, type] : known)
        if (name == v->name)
          return require(x.type() == type, 7, "{} is {}, used as {} in {}", v->name,
                         tektite::name(type), tektite::name(x.type()), where);
      require(false, rule, "unknown name {} in {}", v->name, where);
    });
  }
  std::vector<std::pair<std::string, DType>> coordinates(int rank) const {
    std::vector<std::pair<std::string, DType>> out;
    for (int i = 0; i < rank; i++) out.emplace_back(coordinate(i), DType::I64);
    return out;
  }

  void map(const Node& n, const Map& m) const {
    count(n, n.operands.size(), 1);
    const TensorType& out = n.results[0];
    auto known = coordinates(out.rank());
    for (int i = 0; i < static_cast<int>(n.operands.size()); i++) {
      const TensorType& t = in(n, i);
      bool fits = t.rank() == out.rank();
      for (int k = 0; fits && k < out.rank(); k++)
        fits = isConstant(t.shape[k], 1) || sameDim(t.shape[k], out.shape[k]);
      require(fits, 2, "map operand {} does not broadcast to {}", toText(t), toText(out));
      known.emplace_back(operandName(i), t.dtype);
    }
    require(static_cast<bool>(m.body), 3, "map without a body");
    expression(m.body, known, 3, "the body");
    require(loadsOf(m.body).empty(), 3, "a load in the body");
    require(m.body.type() == out.dtype, 7, "the body is {}, the result {}", name(m.body.type()),
            name(out.dtype));
  }

  void combine(const Combine& c) const {
    const size_t n = c.arity();
    if (isBuiltinCombine(c.name))
      require(n == 1 && c.result ==
                            builtinCombine(c.name, c.types[0])
                                .join({var(c.left[0], c.types[0])}, {var(c.right[0], c.types[0])}),
              4, "a declared combine named {}", c.name);
    require(n && c.left.size() == n && c.right.size() == n && c.result.size() == n &&
                c.identity.size() == n,
            4, "combine {} has parts of unequal number", c.name);
    std::vector<std::pair<std::string, DType>> known;
    for (size_t i = 0; i < n; i++) {
      known.emplace_back(c.left[i], c.types[i]);
      known.emplace_back(c.right[i], c.types[i]);
    }
    for (size_t i = 0; i < n; i++) {
      expression(c.result[i], known, 4, "combine " + c.name);
      expression(c.identity[i], {}, 4, "combine " + c.name);
      require(c.result[i].type() == c.types[i] && c.identity[i].type() == c.types[i], 7,
              "combine {} has types other than it says", c.name);
    }
  }

  void reduce(const Node& n, const Reduce& r) const {
    combine(r.combine);
    count(n, r.combine.arity(), r.combine.arity());
    for (size_t i = 0; i < n.operands.size(); i++) {
      const TensorType &t = in(n, static_cast<int>(i)), &out = n.results[i];
      require(t.dtype == r.combine.types[i] && out.dtype == t.dtype, 7,
              "reduce of {} to {} by a combine of {}", toText(t), toText(out),
              name(r.combine.types[i]));
      require(sameShape(t.shape, in(n, 0).shape), 4, "reduce operands {} and {} differ in shape",
              toText(in(n, 0)), toText(t));
      for (size_t k = 0; k < r.axes.size(); k++)
        require(r.axes[k] >= 0 && r.axes[k] < t.rank() && (k == 0 || r.axes[k - 1] < r.axes[k]), 4,
                "reduce axis {} of {}", r.axes[k], toText(t));
      std::vector<Expr> shape = t.shape;
      for (int axis : r.axes) shape[axis] = 1;
      require(sameShape(shape, out.shape), 4, "reduce of {} gives {}, its axes as 1 are {}",
              toText(t), toText(out), toText(TensorType{t.dtype, shape}));
    }
  }

  void contract(const Node& n, const Contract& c) const {
    count(n, c.inputs.size(), 1);
    std::map<char, Expr> extents;
    for (size_t i = 0; i < c.inputs.size(); i++) {
      const TensorType& t = in(n, static_cast<int>(i));
      require(t.dtype != DType::Bool, 7, "contract of bool");
      require(static_cast<int>(c.inputs[i].size()) == t.rank(), 5, "labels {} for {}", c.inputs[i],
              toText(t));
      for (int k = 0; k < t.rank(); k++) {
        const auto [it, fresh] = extents.emplace(c.inputs[i][k], t.shape[k]);
        require(fresh || sameDim(it->second, t.shape[k]), 5, "label {} has extents {} and {}",
                c.inputs[i][k], toText(it->second), toText(t.shape[k]));
      }
    }
    const TensorType& out = n.results[0];
    require(out.dtype != DType::Bool, 7, "contract to bool");
    require(static_cast<int>(c.output.size()) == out.rank(), 5, "labels {} for the result {}",
            c.output, toText(out));
    for (int k = 0; k < out.rank(); k++) {
      require(c.output.find(c.output[k]) == static_cast<size_t>(k), 5,
              "label {} twice in the result", c.output[k]);
      const auto it = extents.find(c.output[k]);
      require(it != extents.end(), 5, "label {} is in no operand", c.output[k]);
      require(sameDim(it->second, out.shape[k]), 5, "label {} has extents {} and {}", c.output[k],
              toText(it->second), toText(out.shape[k]));
    }
  }

  /// Loads in an index: $1.. of the operands between `from` and `to`, i64 or i32, one index an axis; they read at coordinates in range.
  void loads(const Node& n, const Expr& e, int from, int to, const std::vector<Expr>& space,
             const std::vector<std::pair<std::string, DType>>& known) const {
    for (const Expr& x : loadsOf(e)) {
      const Load& l = *x.as<Load>();
      int k = -1;
      for (int i = from; i < to; i++)
        if (l.buffer == operandName(i)) k = i;
      require(k >= 0, 6, "a load of {}, which is no index operand", l.buffer);
      const TensorType& t = in(n, k);
      require(t.dtype == DType::I64 || t.dtype == DType::I32, 7,
              "index operand {} is neither i64 nor i32", toText(t));
      require(x.type() == t.dtype, 7, "{} is {}, loaded as {}", l.buffer, name(t.dtype),
              name(x.type()));
      require(static_cast<int>(l.index.size()) == t.rank(), 6, "{} indices for {}", l.index.size(),
              toText(t));
      for (int a = 0; a < t.rank(); a++) {
        expression(l.index[a], known, 6, "an index");
        require(inRange(l.index[a], t.shape[a], space, ranges_), 6,
                "index {} of {} is not provably in range", toText(l.index[a]), toText(t));
      }
    }
  }

  void view(const Node& n, const View& v, bool gathers) const {
    require(!n.operands.empty(), 1, "view without an operand");
    count(n, gathers ? n.operands.size() : 1, 1);
    const TensorType &t = in(n, 0), &out = n.results[0];
    require(t.dtype == out.dtype, 7, "view of {} gives {}", toText(t), toText(out));
    require(static_cast<int>(v.index.size()) == t.rank(), 6, "{} indices for {}", v.index.size(),
            toText(t));
    const auto known = coordinates(out.rank());
    for (int a = 0; a < t.rank(); a++) {
      const Expr& e = v.index[a];
      require(e && e.type() == DType::I64, 7, "an index that is no i64");
      expression(e, known, 6, "an index");
      if (gathers)
        loads(n, e, 1, static_cast<int>(n.operands.size()), out.shape, known);
      else
        require(loadsOf(e).empty(), 6, "a load in a view's index");
      if (!v.fill)
        require(inRange(e, t.shape[a], out.shape, ranges_), 6,
                "index {} of {} is not provably in range, and there is no fill", toText(e),
                toText(t));
    }
    require(!gathers || v.fill, 6, "gather without a fill");
    if (v.fill)
      require(v.fill.as<Imm>() && v.fill.type() == t.dtype, 7, "the fill of {} is {}", toText(t),
              toText(v.fill));
    if (!v.guard) return;
    require(static_cast<bool>(v.fill), 6, "a guard without a fill");
    require(v.guard.type() == DType::Bool, 7, "a guard that is no bool");
    expression(v.guard, known, 6, "the guard");
    if (gathers)
      loads(n, v.guard, 1, static_cast<int>(n.operands.size()), out.shape, known);
    else
      require(loadsOf(v.guard).empty(), 6, "a load in a view's guard");
  }

  void concat(const Node& n, const Concat& c) const {
    require(!n.operands.empty(), 1, "concat without operands");
    count(n, n.operands.size(), 1);
    const TensorType& out = n.results[0];
    require(c.axis >= 0 && c.axis < out.rank(), 12, "concat axis {} of {}", c.axis, toText(out));
    Expr sum = 0;
    for (int i = 0; i < static_cast<int>(n.operands.size()); i++) {
      const TensorType& t = in(n, i);
      require(t.dtype == out.dtype, 7, "concat of {} gives {}", toText(t), toText(out));
      bool fits = t.rank() == out.rank();
      for (int k = 0; fits && k < out.rank(); k++)
        fits = k == c.axis || sameDim(t.shape[k], out.shape[k]);
      require(fits, 12, "concat operand {} does not fit {}", toText(t), toText(out));
      sum = sum + t.shape[c.axis];
    }
    require(sameDim(sum, out.shape[c.axis]), 12, "concat gives extent {}, its operands have {}",
            toText(out.shape[c.axis]), toText(normalDim(sum)));
  }

  void update(const Node& n, const Update& u) const {
    require(n.operands.size() >= 2, 1, "update with {} operands", n.operands.size());
    count(n, n.operands.size(), 1);
    const TensorType &base = in(n, 0), &values = in(n, static_cast<int>(n.operands.size()) - 1);
    require(base.dtype == values.dtype && base.dtype == n.results[0].dtype, 7,
            "update of {} by {} gives {}", toText(base), toText(values), toText(n.results[0]));
    require(sameShape(base.shape, n.results[0].shape), 13, "update of {} gives {}", toText(base),
            toText(n.results[0]));
    require(static_cast<int>(u.index.size()) == base.rank(), 13, "{} indices for {}",
            u.index.size(), toText(base));
    const auto known = coordinates(values.rank());
    for (const Expr& e : u.index) {
      require(e && e.type() == DType::I64, 7, "an index that is no i64");
      expression(e, known, 13, "an index");
      loads(n, e, 1, static_cast<int>(n.operands.size()) - 1, values.shape, known);
    }
    require(u.combine.empty() || isBuiltinCombine(u.combine), 13, "update by unknown combine {}",
            u.combine);
  }

  void constant(const Node& n, const Const& c) const {
    count(n, 0, 1);
    const TensorType& t = n.results[0];
    require((c.data != nullptr) != static_cast<bool>(c.splat), 11,
            "a constant is either data or a splat");
    if (c.splat)
      return require(c.splat.as<Imm>() && c.splat.type() == t.dtype, 7, "the splat {} in {}",
                     toText(c.splat), toText(t));
    require(t.isStatic(), 11, "constant data in {}", toText(t));
    const size_t bytes = static_cast<size_t>(bytesOf(t));
    require(c.data->bytes == bytes, 11, "{} bytes of data for {}, expected {}", c.data->bytes,
            toText(t), bytes);
  }

  // ---- nested graphs

  void agree(const TensorType& found, const TensorType& expected, int rule,
             std::string_view what) const {
    require(found.dtype == expected.dtype && sameShape(found.shape, expected.shape), rule,
            "{} is {}, expected {}", what, toText(found), toText(expected));
  }
  void body(const Graph& b, const std::vector<TensorType>& inputs,
            const std::vector<TensorType>& outputs, int rule, bool group) const {
    const std::vector<Value> found = b.inputs();
    require(found.size() == inputs.size(), rule, "a body with {} inputs, expected {}", found.size(),
            inputs.size());
    for (size_t i = 0; i < inputs.size(); i++)
      agree(b.type(found[i]), inputs[i], rule, "a body's input");
    Verifier(b, outermost_, group).run();
    require(b.outputs.size() == outputs.size(), rule, "a body with {} outputs, expected {}",
            b.outputs.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); i++)
      agree(b.type(b.outputs[i]), outputs[i], rule, "a body's output");
  }
  std::vector<TensorType> types(const Node& n, size_t from) const {
    std::vector<TensorType> out;
    for (size_t i = from; i < n.operands.size(); i++) out.push_back(in(n, static_cast<int>(i)));
    return out;
  }
  /// The type of one slice along axis 0.
  TensorType slice(const TensorType& t) const {
    require(t.rank() > 0, 14, "a stacked value of rank 0");
    return {t.dtype, {t.shape.begin() + 1, t.shape.end()}};
  }

  void branch(const Node& n, const Branch& b) const {
    require(!n.operands.empty(), 1, "if without a condition");
    agree(in(n, 0), {DType::Bool, {}}, 14, "the condition");
    for (const auto& g : {b.then, b.otherwise}) body(*g, types(n, 1), n.results, 14, inGroup_);
  }
  void loop(const Node& n, const Loop& l) const {
    require(l.states >= 0 && n.operands.size() >= 2 + static_cast<size_t>(l.states) &&
                n.results.size() >= static_cast<size_t>(l.states),
            1, "loop with {} states, {} operands and {} results", l.states, n.operands.size(),
            n.results.size());
    agree(in(n, 0), {DType::I64, {}}, 14, "the trip count");
    agree(in(n, 1), {DType::Bool, {}}, 14, "the condition");
    std::vector<TensorType> outputs{{DType::Bool, {}}};
    for (int i = 0; i < l.states; i++) {
      agree(n.results[i], in(n, 2 + i), 14, "a state");
      outputs.push_back(n.results[i]);
    }
    for (size_t i = l.states; i < n.results.size(); i++) outputs.push_back(slice(n.results[i]));
    body(*l.body, types(n, 0), outputs, 14, inGroup_);
  }
  void scan(const Node& n, const Scan& s) const {
    require(s.states >= 0 && s.scanned >= 0 &&
                n.operands.size() >= static_cast<size_t>(s.states + s.scanned) &&
                n.results.size() >= static_cast<size_t>(s.states),
            1, "scan with {} states, {} scanned, {} operands and {} results", s.states, s.scanned,
            n.operands.size(), n.results.size());
    const size_t stacked = n.results.size() - s.states;
    require(s.reverse.empty() || s.reverse.size() == s.scanned + stacked, 14,
            "{} reverse flags for {} scanned operands and results", s.reverse.size(),
            s.scanned + stacked);
    require(s.scanned + stacked > 0, 14, "scan without a time axis");
    const Expr time = s.scanned ? slice(in(n, s.states)), in(n, s.states).shape[0]
                                : (slice(n.results[s.states]), n.results[s.states].shape[0]);
    std::vector<TensorType> inputs = types(n, 0), outputs;
    for (int i = 0; i < s.states; i++) {
      agree(n.results[i], inputs[i], 14, "a state");
      outputs.push_back(inputs[i]);
    }
    for (int i = s.states; i < s.states + s.scanned; i++) {
      require(inputs[i].rank() > 0 && sameDim(inputs[i].shape[0], time), 14,
              "scanned {} has another time axis than {}", toText(inputs[i]), toText(time));
      inputs[i] = slice(inputs[i]);
    }
    for (size_t i = s.states; i < n.results.size(); i++) {
      outputs.push_back(slice(n.results[i]));
      require(sameDim(n.results[i].shape[0], time), 14, "scanned {} has another time axis than {}",
              toText(n.results[i]), toText(time));
    }
    body(*s.body, inputs, outputs, 14, inGroup_);
  }
  void group(const Node& n, const Group& g) const {
    require(!inGroup_, 8, "a group in a group");
    body(*g.body, types(n, 0), n.results, 8, true);
  }

  void kind(const Node& n) const {
    std::visit(
        overloaded{
            [&](const Input&) { count(n, 0, 1); }, [&](const Const& c) { constant(n, c); },
            [&](const Map& m) { map(n, m); }, [&](const Reduce& r) { reduce(n, r); },
            [&](const Contract& c) { contract(n, c); }, [&](const View& v) { view(n, v, false); },
            [&](const Gather& v) { view(n, v, true); }, [&](const Concat& c) { concat(n, c); },
            [&](const Update& u) { update(n, u); }, [&](const Branch& b) { branch(n, b); },
            [&](const Loop& l) { loop(n, l); }, [&](const Scan& s) { scan(n, s); },
            [&](const Call& c) { require(!c.routine.empty(), 16, "a call without a routine"); },
            [&](const Group& g) { group(n, g); }},
        n.kind);
  }

  const Graph& g_;
  const std::map<std::string, DimRange>& dims_;
  const Ranges ranges_;
  const Graph& outermost_;
  const bool inGroup_;
  int at_ = 0;
};

}  // namespace

void verify(const Graph& g) {
  for (const auto& [name, range] : g.dims)
    if (range.low < 0 || range.high < range.low ||
        (name[0] == 'd' && name.size() > 1 &&
         name.find_first_not_of("0123456789", 1) == std::string::npos))
      throw InternalError(
          fmt::format("verifier: graph: dim {}: {}..{} (G15)", name, range.low, range.high));
  Verifier(g, g, false).run();
}

}  // namespace tektite
