#include "runtime/verify.h"

#include <cmath>
#include <cstring>
#include <random>

#include "ir/graph_eval.h"
#include "runtime/team.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

Tensor tensorOf(DType type, const std::vector<int64_t>& shape, const void* data) {
  return Tensor::fromRaw(type, shape, data);
}

/// In double precision, as compare() wants both sides.
Array doubles(const Tensor& tensor) {
  if (!isFloat(tensor.dtype)) {
    Array array(tensor.dtype, tensor.shape);
    tensor.toRaw(array.data());
    return array;
  }
  Array array(DType::F64, tensor.shape);
  for (int64_t i = 0, n = array.elements(); i < n; ++i)
    storeFloat(DType::F64, array.data(), i, tensor.reals()[i]);
  return array;
}

/// A tensor that kernels keep in an order of their own.
Array rowMajor(const TensorType& type, const std::vector<int64_t>& strides, const char* data) {
  Array plain(type.dtype, type.extents());
  const int64_t size = bytes(type.dtype), count = plain.elements();
  std::vector<int64_t> at(strides.size(), 0);
  int64_t place = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<char*>(plain.data()) + i * size, data + place * size,
                static_cast<size_t>(size));
    for (size_t d = at.size(); d-- > 0;) {
      place += strides[d];
      if (++at[d] < plain.shape[d]) break;
      place -= strides[d] * at[d];
      at[d] = 0;
    }
  }
  return plain;
}

/// The graph with every operation on float32 rounded: the interpreter's floats are doubles, and where what is rounded to an integer lies
/// halfway, the last bit decides.
Graph roundEach(Graph g) {
  for (Node& n : g.nodes)
    if (Map* m = std::get_if<Map>(&n.kind))
      m->body = rewrite(m->body, [](const Expr& e) -> Expr {
        if (!e.as<Apply>() || e.type() != DType::F32) return {};
        return apply(Op::FromBits, {apply(Op::ToBits, {e})});
      });
  return g;
}

/// One program run step by step: every value keeps its memory, so that a group's actual inputs can be read after it ran.
class Trace {
 public:
  Trace(const Graph& graph, const std::vector<Array>& inputs, CompileOptions options,
        bool unfused) {
    options.fusion.unfused = unfused;
    options.reuseMemory = false;
    program_ = compile(graph, options);
    for (const TensorType& type : program_->outputs)
      outputs_.emplace_back(type.dtype, type.extents());
    team_.emplace(options.threads);
    session_.emplace(program_, &*team_);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Array& array : inputs) in.push_back(array.data());
    for (const Array& array : outputs_) out.push_back(array.data());
    session_->run(in.data(), out.data());
  }

  const std::vector<Array>& outputs() const { return outputs_; }
  const Program& program() const { return *program_; }

  /// Every group against the interpreter, on what the group before it really made.
  std::vector<GroupCheck> checkGroups(const VerifyOptions& options, bool whole) const {
    std::vector<GroupCheck> checks;
    for (const Step& step : program_->steps) {
      if (step.node >= 0 && program_->graph.nodes[step.node].as<Group>())
        checks.push_back(checkGroup(step, options, whole));
    }
    return checks;
  }

 private:
  Tensor actual(Value v) const {
    const TensorType& type = program_->graph.type(v);
    if (program_->graph.node(v).as<Const>()) return Tensor::fromConst(program_->graph.node(v));
    const void* data = session_->data(program_->slotOf.at(v));
    const Group* group = program_->graph.node(v).as<Group>();
    if (!group || !group->plan) return tensorOf(type.dtype, type.extents(), data);
    for (const PlanBuffer& b : group->plan->buffers) {
      if (b.kind == PlanBuffer::Output && b.value == group->body->outputs[v.result] &&
          !b.order.empty()) {
        const Array plain = rowMajor(type, memoryStrides(b), static_cast<const char*>(data));
        return tensorOf(type.dtype, type.extents(), plain.data());
      }
    }
    return tensorOf(type.dtype, type.extents(), data);
  }

  GroupCheck checkGroup(const Step& step, const VerifyOptions& options, bool whole) const {
    const Node& node = program_->graph.nodes[step.node];
    const Graph& body = *node.as<Group>()->body;
    const KernelInfo& kernel = program_->kernels[step.kernel];
    GroupCheck check{kernel.name, kernel.nodes, {}, !whole};
    std::vector<Tensor> operands;
    for (Value v : node.operands) operands.push_back(actual(v));
    check.error = compareGroup(step.node, body, operands, options, whole);
    if (check.error.ok) return check;
    if (const Comparison rounded =
            compareGroup(step.node, roundEach(body), operands, options, whole);
        rounded.ok)
      check.error = rounded;
    return check;
  }

  Comparison compareGroup(int group, const Graph& body, const std::vector<Tensor>& operands,
                          const VerifyOptions& options, bool whole) const {
    const Node& node = program_->graph.nodes[group];
    Comparison all;
    const std::vector<Tensor> expected = whole ? evaluate(body, operands) : std::vector<Tensor>();
    for (size_t r = 0; r < node.results.size(); ++r) {
      const int result = static_cast<int>(r);
      join(all,
           whole
               ? compare(doubles(actual({group, result})), doubles(expected[r]), options.tolerance)
               : sampled(group, result, body, operands, options),
           node, r);
    }
    return all;
  }

  static void join(Comparison& all, const Comparison& one, const Node& node, size_t result) {
    if (!one.ok && all.ok)
      all.problem =
          node.results.size() > 1 ? fmt::format("result {}: {}", result, one.problem) : one.problem;
    all.ok = all.ok && one.ok;
    all.maxAbs = std::max(all.maxAbs, one.maxAbs);
    all.maxRel = std::max(all.maxRel, one.maxRel);
  }

  /// Some elements of a result: the first, the last, and random ones. Errors are relative to the largest element of the whole.
  Comparison sampled(int group, int result, const Graph& body, const std::vector<Tensor>& operands,
                     const VerifyOptions& options) const {
    const Tensor found = actual({group, result});
    const int64_t n = found.elements();
    if (n == 0) return {};
    std::mt19937_64 random(options.seed);
    std::vector<int64_t> at = {0, n - 1};
    while (static_cast<int>(at.size()) < options.samples)
      at.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(n)));
    const std::vector<double> values = evaluateAt(body, result, at, operands);
    Array some(isFloat(found.dtype) ? DType::F64 : found.dtype,
               {static_cast<int64_t>(at.size()) + 1}),
        expected(some.type, some.shape);
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (const double x = std::fabs(found.at(i)); std::isfinite(x)) largest = std::max(largest, x);
    }
    const auto store = [&](const Array& array, size_t i, double value) {
      if (isFloat(array.type))
        storeFloat(array.type, array.data(), static_cast<int64_t>(i), value);
      else
        storeInteger(array.type, array.data(), static_cast<int64_t>(i),
                     static_cast<int64_t>(value));
    };
    for (size_t i = 0; i < at.size(); ++i) {
      store(some, i, found.at(at[i]));
      store(expected, i, values[i]);
    }
    store(some, at.size(), largest);  // sets the scale
    store(expected, at.size(), largest);
    Comparison c = compare(some, expected, options.tolerance);
    if (!c.ok) {  // "[3]: ...": the third sample
      const int64_t element = at[std::stoul(c.problem.substr(1))];
      c.problem =
          fmt::format("element {} of {}{}", element, toText(body.type(body.outputs[result])),
                      c.problem.substr(c.problem.find(']') + 1));
    }
    return c;
  }

  std::shared_ptr<const Program> program_;
  std::vector<Array> outputs_;
  std::optional<Team> team_;
  std::optional<Session> session_;
};

std::optional<size_t> firstWrong(const std::vector<GroupCheck>& checks) {
  for (size_t i = 0; i < checks.size(); ++i) {
    if (!checks[i].error.ok) return i;
  }
  return {};
}

}  // namespace

Verification verifyProgram(const Graph& graph, const std::vector<Array>& inputs,
                           const CompileOptions& options, const VerifyOptions& how) {
  Verification v;
  v.scalarSteps = evalSteps(graph);
  const bool interpreted = v.scalarSteps <= how.scalarSteps;
  const Trace fused(graph, inputs, options, options.fusion.unfused),
      unfused(graph, inputs, options, true);
  std::vector<Tensor> tensors, expected, rounded;
  if (interpreted) {
    for (const Array& input : inputs)
      tensors.push_back(tensorOf(input.type, input.shape, input.data()));
    expected = evaluate(graph, tensors);
  }
  const auto asDoubles = [](const Array& array) {
    return doubles(tensorOf(array.type, array.shape, array.data()));
  };
  const auto interpret = [&](const Array& found, size_t output) {
    const Comparison exact = compare(found, doubles(expected[output]), how.tolerance);
    if (exact.ok) return exact;
    if (rounded.empty()) rounded = evaluate(roundEach(graph), tensors);
    const Comparison again = compare(found, doubles(rounded[output]), how.tolerance);
    return again.ok ? again : exact;
  };
  bool same = true, sameUnfused = true;
  for (size_t i = 0; i < fused.outputs().size(); ++i) {
    OutputCheck check{fused.program().outputNames[i], {}, {}, interpreted};
    const Array found = asDoubles(fused.outputs()[i]), apart = asDoubles(unfused.outputs()[i]);
    if (interpreted) {
      check.fused = interpret(found, i);
      check.unfused = interpret(apart, i);
    } else {
      check.fused = compare(found, apart, how.tolerance);
    }
    same = same && check.fused.ok;
    sameUnfused = sameUnfused && check.unfused.ok;
    v.outputs.push_back(std::move(check));
  }
  v.fused = fused.checkGroups(how, interpreted && !same);
  v.unfused = unfused.checkGroups(how, interpreted && !sameUnfused);
  v.firstWrong = firstWrong(v.fused);
  v.firstWrongUnfused = firstWrong(v.unfused);
  v.ok = same && sameUnfused && !v.firstWrong && !v.firstWrongUnfused;
  return v;
}

}  // namespace tektite
