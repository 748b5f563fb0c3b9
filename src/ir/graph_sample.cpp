#include <algorithm>

#include "ir/graph_kernels.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

using Shapes = std::vector<std::vector<int64_t>>;
using Need = std::function<void(size_t, int64_t)>;

void mapNeeds(const std::vector<int64_t>& out, const Shapes& shapes,
              const std::vector<int64_t>& elements, const Need& need) {
  std::vector<std::vector<int64_t>> strides;
  for (const auto& s : shapes) strides.push_back(broadcastStrides(s, out));
  for (int64_t e : elements) {
    const Odometer at(out, strides, e);
    for (size_t k = 0; k < shapes.size(); k++) need(k, at.position(k));
  }
}

/// Calls `see` with the position of everything that element `e` of a reduction sums.
template <class F>
void reduced(const Reduce& r, const std::vector<int64_t>& from, int64_t e, F see) {
  std::vector<int64_t> out = from, strides = rowMajor(from), extents, steps;
  for (int axis : r.axes) {
    out[static_cast<size_t>(axis)] = 1;
    extents.push_back(from[static_cast<size_t>(axis)]);
    steps.push_back(strides[static_cast<size_t>(axis)]);
  }
  const int64_t base = Odometer(out, {strides}, e).position(0);
  int64_t n = 1;
  for (int64_t x : extents) n *= x;
  Odometer at(extents, {steps}, 0);
  for (int64_t i = 0; i < n; i++, at.next()) see(base + at.position(0));
}

/// The same for the terms of a contraction: the position in every operand.
template <class F>
void contracted(const Contract& c, const Shapes& shapes, int64_t e, F see) {
  std::string summed;
  std::map<char, int64_t> extents;
  for (size_t i = 0; i < c.inputs.size(); i++)
    for (size_t k = 0; k < c.inputs[i].size(); k++) {
      extents[c.inputs[i][k]] = shapes[i][k];
      if ((c.output + summed).find(c.inputs[i][k]) == std::string::npos) summed += c.inputs[i][k];
    }
  const auto walk = [&](const std::string& labels, int64_t first) {
    std::vector<int64_t> size;
    std::vector<std::vector<int64_t>> strides(shapes.size());
    for (char l : labels) {
      size.push_back(extents[l]);
      for (size_t i = 0; i < shapes.size(); i++) {
        const std::vector<int64_t> rows = rowMajor(shapes[i]);
        int64_t stride = 0;
        for (size_t k = 0; k < c.inputs[i].size(); k++)
          if (c.inputs[i][k] == l) stride += rows[k];
        strides[i].push_back(stride);
      }
    }
    return Odometer(size, strides, first);
  };
  const Odometer outer = walk(c.output, e);
  Odometer inner = walk(summed, 0);
  int64_t n = 1;
  for (char l : summed) n *= extents[l];
  std::vector<int64_t> at(shapes.size());
  for (int64_t s = 0; s < n; s++, inner.next()) {
    for (size_t i = 0; i < at.size(); i++) at[i] = outer.position(i) + inner.position(i);
    see(at);
  }
}

void concatNeeds(const Concat& c, const std::vector<int64_t>& out, const Shapes& shapes,
                 const std::vector<int64_t>& elements, const Need& need) {
  const size_t axis = static_cast<size_t>(c.axis);
  for (int64_t e : elements) {
    const Odometer at(out, {}, e);
    int64_t along = at.coordinate(axis);
    size_t k = 0;
    while (along >= shapes[k][axis]) along -= shapes[k++][axis];
    int64_t position = 0;
    for (size_t i = 0; i < out.size(); i++)
      position = position * shapes[k][i] + (i == axis ? along : at.coordinate(i));
    need(k, position);
  }
}

}  // namespace

bool needsOf(const Node& n, const Shapes& shapes, const std::vector<int64_t>& elements,
             const Need& need) {
  const std::vector<int64_t> out = n.results[0].extents();
  const auto all = [] { return false; };
  return std::visit(
      overloaded{[&](const Input&) { return true; }, [&](const Const&) { return true; },
                 [&](const Map&) { return mapNeeds(out, shapes, elements, need), true; },
                 [&](const Reduce& r) {
                   for (int64_t e : elements)
                     reduced(r, shapes[0], e, [&](int64_t at) {
                       for (size_t k = 0; k < shapes.size(); k++) need(k, at);
                     });
                   return true;
                 },
                 [&](const Contract& c) {
                   for (int64_t e : elements)
                     contracted(c, shapes, e, [&](const std::vector<int64_t>& at) {
                       for (size_t k = 0; k < at.size(); k++) need(k, at[k]);
                     });
                   return true;
                 },
                 [&](const View& v) {
                   return viewPositions(v, shapes[0], out, elements,
                                        [&](int64_t at) { need(0, at); }),
                          true;
                 },
                 [&](const Gather&) { return all(); },
                 [&](const Concat& c) { return concatNeeds(c, out, shapes, elements, need), true; },
                 [&](const Update&) { return all(); }, [&](const Branch&) { return all(); },
                 [&](const Loop&) { return all(); }, [&](const Scan&) { return all(); },
                 [&](const Call&) { return all(); }, [&](const Group&) { return all(); }},
      n.kind);
}

void evalReduceAt(const Reduce& r, const Operands& in, std::vector<Tensor>& out,
                  const std::vector<int64_t>& elements) {
  const size_t arity = r.combine.arity();
  std::vector<std::string> names = r.combine.left;
  names.insert(names.end(), r.combine.right.begin(), r.combine.right.end());
  const ScalarProgram program(r.combine.result, names), identity(r.combine.identity, {});
  ScalarProgram::Machine machine(program, {}), start(identity, {});
  start.run(1);
  for (int64_t e : elements) {
    std::vector<int64_t> state(arity);
    for (size_t k = 0; k < arity; k++) state[k] = start.result(static_cast<int>(k)).integer[0];
    reduced(r, in[0]->shape, e, [&](int64_t at) {
      for (size_t k = 0; k < arity; k++) {
        if (program.uses(static_cast<int>(k)))
          machine.variable(static_cast<int>(k)).integer[0] = state[k];
        if (program.uses(static_cast<int>(arity + k)))
          machine.variable(static_cast<int>(arity + k)).integer[0] = in[k]->integers()[at];
      }
      machine.run(1);
      for (size_t k = 0; k < arity; k++) state[k] = machine.result(static_cast<int>(k)).integer[0];
    });
    for (size_t k = 0; k < arity; k++) out[k].integers()[e] = state[k];
  }
}

void evalContractAt(const Contract& c, const Operands& in, Tensor& out,
                    const std::vector<int64_t>& elements) {
  Shapes shapes;
  for (const Tensor* t : in) shapes.push_back(t->shape);
  for (int64_t e : elements) {
    double real = 0;
    uint64_t whole = 0;
    contracted(c, shapes, e, [&](const std::vector<int64_t>& at) {
      double x = 1;
      uint64_t u = 1;
      for (size_t k = 0; k < at.size(); k++) {
        if (isFloat(out.dtype))
          x *= in[k]->at(at[k]);
        else
          u *= static_cast<uint64_t>(isFloat(in[k]->dtype)
                                         ? saturateTo(DType::I64, in[k]->reals()[at[k]])
                                         : in[k]->integers()[at[k]]);
      }
      real += x;
      whole += u;
    });
    if (isFloat(out.dtype))
      out.reals()[e] = real;
    else
      out.integers()[e] = wrapTo(out.dtype, static_cast<int64_t>(whole));
  }
}

namespace {

/// Which elements of a value are needed: none, marked ones, or all.
struct Needed {
  bool all = false;
  std::vector<bool> marks;
  void mark(int64_t n, int64_t at) {
    if (all) return;
    if (marks.empty()) marks.resize(static_cast<size_t>(n));
    marks[static_cast<size_t>(at)] = true;
  }
  bool any() const { return all || !marks.empty(); }
  std::vector<int64_t> list() const {
    std::vector<int64_t> out;
    for (size_t i = 0; i < marks.size(); i++)
      if (marks[i]) out.push_back(static_cast<int64_t>(i));
    return out;
  }
};

class Sampler {
 public:
  Sampler(const Graph& g, const EvalOptions& options)
      : g_(g), options_(options), needed_(g.nodes.size()) {}

  std::vector<double> run(int output, const std::vector<int64_t>& elements,
                          const std::vector<Tensor>& inputs) {
    const Value v = g_.outputs[static_cast<size_t>(output)];
    const int64_t n = g_.type(v).elements();
    for (int64_t e : elements) {
      if (e < 0 || e >= n)
        userError("output {}: found element {}, expected less than {}", output, e, n);
      needed_[v.node].mark(n, e);
    }
    lists_.resize(g_.nodes.size());
    for (int i = v.node; i >= 0; i--) backward(i);
    std::vector<std::vector<Tensor>> values(g_.nodes.size());
    size_t input = 0;
    for (int i = 0; i <= v.node; i++) {
      if (g_.nodes[i].as<Input>())
        values[i] = {inputs[input++]};
      else if (needed_[i].any())
        values[i] = forward(i, values);
    }
    std::vector<double> out;
    for (int64_t e : elements) out.push_back(values[v.node][v.result].at(e));
    return out;
  }

 private:
  int64_t elements(Value v) const { return g_.type(v).elements(); }

  void backward(int i) {
    const Node& n = g_.nodes[i];
    Needed& needed = needed_[i];
    if (!needed.any() || n.as<Input>() || n.as<Const>()) return;
    if (!needed.all) {
      lists_[i] = needed.list();
      if (static_cast<int64_t>(lists_[i].size()) * 2 > elements({i, 0})) needed.all = true;
    }
    const auto everything = [&] {
      needed.all = true;
      for (Value v : n.operands) needed_[v.node].all = true;
    };
    if (needed.all) return everything();
    Shapes shapes;
    for (Value v : n.operands) shapes.push_back(g_.type(v).extents());
    std::vector<int64_t> sizes;
    for (Value v : n.operands) sizes.push_back(elements(v));
    const bool said = needsOf(n, shapes, lists_[i], [&](size_t k, int64_t at) {
      needed_[n.operands[k].node].mark(sizes[k], at);
    });
    if (!said) everything();
  }

  std::vector<Tensor> forward(int i, const std::vector<std::vector<Tensor>>& values) const {
    const Node& n = g_.nodes[i];
    std::vector<Tensor> operands;
    for (Value v : n.operands) {
      const auto& of = values[v.node];
      operands.push_back(of.empty() ? Tensor::zeros(g_.type(v).dtype, g_.type(v).extents())
                                    : of[v.result]);
    }
    if (needed_[i].all || n.as<Const>()) return evalNode(n, operands, options_);
    Operands in;
    for (const Tensor& t : operands) in.push_back(&t);
    std::vector<Tensor> out;
    for (const TensorType& t : n.results) out.push_back(Tensor::zeros(t.dtype, t.extents()));
    const std::vector<int64_t>& list = lists_[i];
    if (const Map* m = n.as<Map>()) evalMap(*m, in, out[0], {&list}, options_.threads);
    if (const View* v = n.as<View>()) evalView(*v, in, out[0], {&list}, options_.threads);
    if (const Reduce* r = n.as<Reduce>()) evalReduceAt(*r, in, out, list);
    if (const Contract* c = n.as<Contract>()) evalContractAt(*c, in, out[0], list);
    if (const Concat* c = n.as<Concat>()) evalConcat(*c, in, out[0]);
    return out;
  }

  const Graph& g_;
  const EvalOptions& options_;
  std::vector<Needed>
      needed_;  // by node: its results share shapes where only some elements are needed
  std::vector<std::vector<int64_t>> lists_;
};

}  // namespace

std::vector<double> evaluateAt(const Graph& g, int output, const std::vector<int64_t>& elements,
                               const std::vector<Tensor>& inputs, const EvalOptions& options) {
  EvalOptions all = options;
  const std::vector<Value> params = g.inputs();
  if (params.size() != inputs.size())
    userError("found {} inputs, expected {}", inputs.size(), params.size());
  for (size_t i = 0; i < params.size(); i++)
    for (size_t k = 0; k < inputs[i].shape.size() && k < g.type(params[i]).shape.size(); k++)
      if (const Var* v = g.type(params[i]).shape[k].as<Var>())
        all.dims[v->name] = inputs[i].shape[k];
  return Sampler(all.dims.empty() ? g : bindDims(g, all.dims), all).run(output, elements, inputs);
}

}  // namespace tektite
