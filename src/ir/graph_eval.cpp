#include "ir/graph_eval.h"

#include <algorithm>
#include <cstring>

#include "ir/graph_kernels.h"
#include "ir/routines.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

using Tensors = std::vector<Tensor>;
using Dims = std::unordered_map<std::string, Expr>;

int64_t elementsOf(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

Tensor part(const Tensor& t, int64_t at) {  // of axis 0, without a copy
  Tensor out{t.dtype, {t.shape.begin() + 1, t.shape.end()}, nullptr};
  out.buffer =
      std::shared_ptr<void>(t.buffer, static_cast<int64_t*>(t.buffer.get()) + at * out.elements());
  return out;
}

Tensor stacked(const Tensors& parts, const TensorType& type) {
  std::vector<int64_t> shape{static_cast<int64_t>(parts.size())};
  for (size_t i = 1; i < type.shape.size(); i++)
    shape.push_back(parts.empty() ? asInteger(type.shape[i]).value_or(0) : parts[0].shape[i - 1]);
  Tensor out = Tensor::zeros(type.dtype, shape);
  int64_t at = 0;
  for (const Tensor& p : parts) {
    std::memcpy(out.integers() + at, p.integers(), static_cast<size_t>(p.elements()) * 8);
    at += p.elements();
  }
  return out;
}

/// Evaluates one graph; dims are known from inputs, options, and nodes whose results say how large they came out.
class Evaluation {
 public:
  Evaluation(const EvalOptions& options, Dims dims) : options_(options), dims_(std::move(dims)) {}

  Tensors run(const Graph& g, const Tensors& inputs, bool outermost) {
    const std::vector<Value> params = g.inputs();
    if (params.size() != inputs.size())
      userError("found {} inputs, expected {}", inputs.size(), params.size());
    for (size_t i = 0; i < inputs.size(); i++) accept(g, g.node(params[i]), inputs[i]);
    const std::vector<int> lastUse = lastUses(g);
    std::vector<Tensors> values(g.nodes.size());
    size_t input = 0;
    for (int i = 0; i < static_cast<int>(g.nodes.size()); i++) {
      const Node& n = g.nodes[i];
      if (n.as<Input>()) {
        values[i] = {inputs[input++]};
      } else {
        Tensors operands;
        for (Value v : n.operands) operands.push_back(values[v.node][v.result]);
        values[i] = node(n, operands);
      }
      if (outermost && options_.observe) options_.observe(i, values[i]);
      for (Value v : n.operands)
        if (lastUse[v.node] == i) values[v.node].clear();
    }
    Tensors out;
    for (Value v : g.outputs) out.push_back(values[v.node][v.result]);
    return out;
  }

  Tensors node(const Node& original, const Tensors& operands) {
    Node bound;
    if (!dims_.empty())
      bound = mapExprs(original, [&](const Expr& e) { return substitute(e, dims_); });
    const Node& n = dims_.empty() ? original : bound;
    Operands in;
    for (const Tensor& t : operands) in.push_back(&t);
    const auto one = [&](auto f) {
      Tensors out = results(n);
      f(out[0]);
      return out;
    };
    const int threads = options_.threads;
    return std::visit(
        overloaded{
            [&](const Input&) -> Tensors {
              TEKTITE_CHECK(false, "an input has no value of its own");
            },
            [&](const Const&) -> Tensors { return {Tensor::fromConst(n)}; },
            [&](const Map& m) {
              return one([&](Tensor& out) { evalMap(m, in, out, {}, threads); });
            },
            [&](const Reduce& r) {
              Tensors out = results(n);
              evalReduce(r, in, out, threads);
              return out;
            },
            [&](const Contract& c) {
              return one([&](Tensor& out) { evalContract(c, in, out, threads); });
            },
            [&](const View& v) {
              return one([&](Tensor& out) { evalView(v, in, out, {}, threads); });
            },
            [&](const Gather& v) {
              return one([&](Tensor& out) { evalView(v, in, out, {}, threads); });
            },
            [&](const Concat& c) { return one([&](Tensor& out) { evalConcat(c, in, out); }); },
            [&](const Update& u) { return one([&](Tensor& out) { evalUpdate(u, in, out); }); },
            [&](const Branch& b) { return branch(b, original, operands); },
            [&](const Loop& l) { return loop(l, original, operands); },
            [&](const Scan& s) { return scan(s, original, operands); },
            [&](const Call& c) { return call(c, original, operands); },
            [&](const Group& g) { return nested(*g.body, operands); }},
        n.kind);
  }

 private:
  static std::vector<int> lastUses(const Graph& g) {
    std::vector<int> last(g.nodes.size(), -1);
    for (int i = 0; i < static_cast<int>(g.nodes.size()); i++)
      for (Value v : g.nodes[i].operands) last[v.node] = i;
    for (Value v : g.outputs) last[v.node] = -1;
    return last;
  }

  /// An input's shape says what the bare dims in its type are; everything else has to agree.
  void accept(const Graph& g, const Node& n, const Tensor& t) {
    const TensorType& type = n.results[0];
    bool fits = t.dtype == type.dtype && static_cast<int>(t.shape.size()) == type.rank();
    for (size_t i = 0; fits && i < t.shape.size(); i++) fits = extent(g, type.shape[i], t.shape[i]);
    if (!fits)
      userError("input '{}': found {}, expected {}", n.name, toText(t.type()), toText(type));
  }
  bool extent(const Graph& g, const Expr& expected, int64_t found) {
    const Expr known = substitute(expected, dims_);
    if (const Var* v = known.as<Var>()) {
      if (const auto it = g.dims.find(v->name);
          it != g.dims.end() && (found < it->second.low || found > it->second.high))
        userError("dim '{}': found {}, expected {}..{}", v->name, found, it->second.low,
                  it->second.high);
      dims_[v->name] = Expr(found);
      return true;
    }
    return !asInteger(known) || *asInteger(known) == found;
  }
  /// A node that knows its extents only now: dims that its type names are born here.
  void born(const Node& n, const Tensors& found) {
    TEKTITE_CHECK(found.size() == n.results.size(), "{} results of {}, expected {}", found.size(),
                  kindName(n.kind), n.results.size());
    for (size_t i = 0; i < found.size(); i++) {
      const TensorType& type = n.results[i];
      bool fits =
          found[i].dtype == type.dtype && static_cast<int>(found[i].shape.size()) == type.rank();
      for (size_t k = 0; fits && k < found[i].shape.size(); k++)
        fits = extent(Graph{}, type.shape[k], found[i].shape[k]);
      TEKTITE_CHECK(fits, "{} gives {}, expected {}", kindName(n.kind), toText(found[i].type()),
                    toText(type));
    }
  }

  static Tensors results(const Node& n) {
    Tensors out;
    for (const TensorType& t : n.results) {
      if (!t.isStatic())
        userError("dims of {} are not known: no input's shape says them", toText(t));
      out.push_back(Tensor::zeros(t.dtype, t.extents()));
    }
    return out;
  }
  Tensors nested(const Graph& body, const Tensors& inputs) {
    return Evaluation(options_, dims_).run(body, inputs, false);
  }

  Tensors branch(const Branch& b, const Node& n, const Tensors& operands) {
    Tensors out = nested(operands[0].integers()[0] ? *b.then : *b.otherwise,
                         {operands.begin() + 1, operands.end()});
    born(n, out);
    return out;
  }

  Tensors loop(const Loop& l, const Node& n, const Tensors& operands) {
    const size_t states = static_cast<size_t>(l.states), scanned = n.results.size() - states;
    Tensors inputs = operands;
    std::vector<Tensors> kept(scanned);
    const int64_t trips = operands[0].integers()[0];
    for (int64_t i = 0; i < trips && inputs[1].integers()[0]; i++) {
      inputs[0] = Tensor::of(DType::I64, {}, {static_cast<double>(i)});
      const Tensors out = nested(*l.body, inputs);
      for (size_t k = 0; k <= states; k++) inputs[1 + k] = out[k];
      for (size_t k = 0; k < scanned; k++) kept[k].push_back(out[1 + states + k]);
    }
    Tensors out(inputs.begin() + 2, inputs.begin() + 2 + static_cast<long>(states));
    for (size_t k = 0; k < scanned; k++) out.push_back(stacked(kept[k], n.results[states + k]));
    born(n, out);
    return out;
  }

  Tensors scan(const Scan& s, const Node& n, const Tensors& operands) {
    const size_t states = static_cast<size_t>(s.states), scanned = static_cast<size_t>(s.scanned),
                 results = n.results.size() - states;
    int64_t steps = 0;
    if (scanned) {
      steps = operands[states].shape[0];
    } else {
      const auto extent = asInteger(substitute(n.results[states].shape[0], dims_));
      if (!extent) userError("scan: the number of steps is not known");
      steps = *extent;
    }
    Tensors inputs = operands;
    std::vector<Tensors> kept(results, Tensors(static_cast<size_t>(steps)));
    const auto place = [&](size_t flag, int64_t i) {
      return flag < s.reverse.size() && s.reverse[flag] ? steps - 1 - i : i;
    };
    for (int64_t i = 0; i < steps; i++) {
      for (size_t k = 0; k < scanned; k++)
        inputs[states + k] = part(operands[states + k], place(k, i));
      const Tensors out = nested(*s.body, inputs);
      for (size_t k = 0; k < states; k++) inputs[k] = out[k];
      for (size_t k = 0; k < results; k++)
        kept[k][static_cast<size_t>(place(scanned + k, i))] = out[states + k];
    }
    Tensors out(inputs.begin(), inputs.begin() + static_cast<long>(states));
    const Node known = mapExprs(n, [&](const Expr& e) { return substitute(e, dims_); });
    for (size_t k = 0; k < results; k++) out.push_back(stacked(kept[k], known.results[states + k]));
    born(n, out);
    return out;
  }

  Tensors call(const Call& c, const Node& n, const Tensors& operands) {
    Tensors out = options_.routine ? options_.routine(c, n, operands) : routine(c, n, operands);
    born(n, out);
    return out;
  }

  Tensors routine(const Call& c, const Node& n, const Tensors& operands) const {
    std::vector<std::vector<char>> memory;
    std::vector<RoutineBuffer> in, out;
    const auto buffer = [&](DType type, const std::vector<int64_t>& shape) -> RoutineBuffer {
      memory.emplace_back(static_cast<size_t>(elementsOf(shape) * bytes(type)) + 1);
      return {type, shape, memory.back().data()};
    };
    for (const Tensor& t : operands) {
      in.push_back(buffer(t.dtype, t.shape));
      t.toRaw(in.back().data);
    }
    const Node known = mapExprs(n, [&](const Expr& e) { return substitute(e, dims_); });
    for (const TensorType& t : known.results) out.push_back(buffer(t.dtype, t.extents()));
    runRoutine(c, in, out);
    Tensors results;
    for (const RoutineBuffer& b : out) results.push_back(Tensor::fromRaw(b.type, b.shape, b.data));
    return results;
  }

  const EvalOptions& options_;
  Dims dims_;
};

Dims dimsOf(const EvalOptions& options) {
  Dims dims;
  for (const auto& [name, value] : options.dims) dims.emplace(name, Expr(value));
  return dims;
}

double stepsOf(const Graph& g, const Dims& dims) {
  const auto elements = [&](const TensorType& t) {
    double n = 1;
    for (const Expr& e : t.shape)
      n *= static_cast<double>(asInteger(substitute(e, dims)).value_or(1));
    return n;
  };
  double steps = 0;
  for (const Node& n : g.nodes) {
    const double out = elements(n.results[0]);
    for (const auto& nested : nestedGraphs(n))
      steps += stepsOf(*nested, dims) *
               (n.as<Scan>() && n.as<Scan>()->scanned
                    ? elements({DType::F32, {g.type(n.operands[n.as<Scan>()->states]).shape[0]}})
                    : 1);
    if (const Map* m = n.as<Map>())
      steps += out * std::max(1.0, slotsOf(m->body));
    else if (n.as<Reduce>())
      steps += elements(g.type(n.operands[0])) * static_cast<double>(n.operands.size());
    else if (const Contract* c = n.as<Contract>()) {
      std::map<char, Expr> extents;
      for (size_t i = 0; i < c->inputs.size(); i++)
        for (size_t k = 0; k < c->inputs[i].size(); k++)
          extents.emplace(c->inputs[i][k], g.type(n.operands[i]).shape[k]);
      TensorType all;
      for (const auto& [label, extent] : extents) all.shape.push_back(extent);
      steps += elements(all);
    } else if (!n.as<Input>() && !n.as<Const>()) {
      steps += out;
    }
  }
  return steps;
}

}  // namespace

std::vector<Tensor> evaluate(const Graph& g, const std::vector<Tensor>& inputs,
                             const EvalOptions& options) {
  return Evaluation(options, dimsOf(options)).run(g, inputs, true);
}

std::vector<Tensor> evalNode(const Node& n, const std::vector<Tensor>& operands,
                             const EvalOptions& options) {
  return Evaluation(options, dimsOf(options)).node(n, operands);
}

double evalSteps(const Graph& g, const EvalOptions& options) {
  Dims dims = dimsOf(options);
  for (const auto& [name, range] : g.dims) dims.emplace(name, Expr(range.low));
  return stepsOf(g, dims);
}

}  // namespace tektite
