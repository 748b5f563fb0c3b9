#include "plan_executor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <variant>

#include "ir/scalar_eval.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

struct Number {
  double real = 0;
  int64_t integer = 0;
};
struct Memory {
  const PlanBuffer* plan = nullptr;
  TestTensor tensor;
  std::vector<int> written;        // how often, per element
  std::vector<int64_t> low, high;  // scratch: what is held now
};
using Env = std::map<std::string, Number>;

int64_t flatIndex(const std::vector<int64_t>& extents, const std::vector<int64_t>& index) {
  int64_t flat = 0;
  for (size_t i = 0; i < index.size(); i++) {
    if (index[i] < 0 || index[i] >= extents[i]) throw std::runtime_error("index out of range");
    flat = flat * extents[i] + index[i];
  }
  return flat;
}

class Executor {
 public:
  explicit Executor(const GroupPlan& plan) : plan_(plan) {}

  std::vector<TestTensor> run(const std::map<Value, TestTensor>& leaves) {
    for (const PlanBuffer& b : plan_.buffers) {
      Memory& m = memory_[b.name];
      m.plan = &b;
      m.tensor.type = b.type;
      const size_t n = static_cast<size_t>(b.type.elements());
      if (b.kind == PlanBuffer::Input || b.kind == PlanBuffer::Constant) {
        m.tensor = leaves.at(b.value);
        m.written.assign(n, 1);
      } else {
        m.tensor.real.assign(n, std::nan(""));
        m.tensor.integer.assign(n, -77);
        m.written.assign(n, 0);
      }
    }
    for (const TileList& list : plan_.lists) {
      list_ = &list;
      partial_.clear();
      tileLoop(0);
    }
    std::vector<TestTensor> out;
    for (const PlanBuffer& b : plan_.buffers) {
      if (b.kind != PlanBuffer::Output) continue;
      for (int w : memory_[b.name].written)
        if (w != 1)
          throw std::runtime_error("output " + b.name + " stored " + std::to_string(w) + " times");
      out.push_back(memory_[b.name].tensor);
    }
    return out;
  }

 private:
  const GroupPlan& plan_;
  const TileList* list_ = nullptr;
  std::map<std::string, Memory> memory_;
  Env env_;
  std::map<std::vector<int64_t>, std::vector<std::vector<Number>>>
      partial_;  // of the sync stage: by space point
  bool last_ = false;

  bool scratchReset(size_t depth) {
    for (auto& [name, m] : memory_) {
      if (m.plan->kind != PlanBuffer::Scratch || m.plan->depth != static_cast<int>(depth)) continue;
      std::fill(m.written.begin(), m.written.end(), 0);
      std::fill(m.tensor.real.begin(), m.tensor.real.end(), std::nan(""));
      m.low.clear();
      m.high.clear();
      for (const Region& r : m.plan->region) {
        const int64_t base = eval(r.base).integer;
        m.low.push_back(base);
        m.high.push_back(base + r.size);
      }
    }
    return true;
  }
  void tileLoop(size_t depth) {
    const size_t grid = gridAxes();
    if (depth >= grid) {
      scratchReset(depth);
      for (size_t s = 0; s < list_->stages.size(); s++) {
        if (list_->sync >= 0 && static_cast<int>(s) > list_->sync) break;
        if ((static_cast<size_t>(list_->stages[s].depth) == depth && !list_->stages[s].after) ||
            list_->sync >= 0)
          runStage(list_->stages[s], static_cast<int>(s) == list_->sync);
      }
    }
    if (depth == list_->tiles.size()) return stagesAfter(depth);
    const TileAxis& t = list_->tiles[depth];
    if (list_->sync >= 0 && depth + 1 == grid) partial_.clear();
    for (int64_t i = 0; i < t.count(); i++) {
      env_[t.var] = {0, i};
      tileLoop(depth + 1);
    }
    stagesAfter(depth);
    if (list_->sync >= 0 && depth + 1 == grid) {
      finishSync();
      for (size_t s = static_cast<size_t>(list_->sync) + 1; s < list_->stages.size(); s++)
        runStage(list_->stages[s], false);
    }
  }
  void stagesAfter(size_t depth) {
    for (const Stage& s : list_->stages)
      if (s.after && static_cast<size_t>(s.depth) == depth) runStage(s, false);
  }
  size_t gridAxes() const {
    size_t n = 0;
    for (const TileAxis& t : list_->tiles) n += t.grid;
    return n;
  }

  template <class F>
  void loop(const Stage& s, size_t axis, bool reduce, std::vector<int64_t>& point, F&& body) {
    while (axis < s.axes.size() && s.axes[axis].reduce != reduce) axis++;
    if (axis == s.axes.size()) return body();
    const StageAxis& a = s.axes[axis];
    const int64_t base = eval(a.region.base).integer;
    const int64_t low = std::max<int64_t>(base, 0), high = std::min(base + a.region.size, a.extent);
    for (int64_t i = low; i < high; i++) {
      env_[a.var] = {0, i};
      point.push_back(i);
      loop(s, axis + 1, reduce, point, body);
      point.pop_back();
    }
  }
  void runStage(const Stage& s, bool sync) {
    std::vector<int64_t> space, reduce;
    loop(s, 0, false, space, [&] {
      std::vector<std::vector<Number>> state;
      for (const Accumulator& a : s.accumulators) state.push_back(identity(a));
      loop(s, 0, true, reduce, [&] {
        for (size_t k = 0; k < s.accumulators.size(); k++) {
          std::vector<Number> now;
          for (const Expr& e : s.accumulators[k].values) now.push_back(eval(e));
          state[k] = join(s.accumulators[k], state[k], now);
        }
        for (const StageStore& store : s.inner) put(store);
      });
      if (sync) {
        auto& p = partial_[space];
        for (size_t k = 0; k < state.size(); k++)
          if (p.size() <= k)
            p.push_back(state[k]);
          else
            p[k] = join(s.accumulators[k], p[k], state[k]);
      } else {
        finish(s, state);
      }
    });
  }
  void finish(const Stage& s, const std::vector<std::vector<Number>>& state) {
    for (size_t k = 0; k < state.size(); k++)
      for (size_t m = 0; m < state[k].size(); m++) env_[s.accumulators[k].names[m]] = state[k][m];
    for (const StageStore& store : s.outer) put(store);
  }
  void finishSync() {
    const Stage& s = list_->stages[static_cast<size_t>(list_->sync)];
    for (const auto& [point, state] : partial_) {
      size_t i = 0;
      for (const StageAxis& a : s.axes)
        if (!a.reduce) env_[a.var] = {0, point[i++]};
      finish(s, state);
    }
  }
  std::vector<Number> identity(const Accumulator& a) {
    std::vector<Number> out;
    for (const Expr& e : a.combine.identity) out.push_back(eval(e));
    return out;
  }
  std::vector<Number> join(const Accumulator& a, const std::vector<Number>& x,
                           const std::vector<Number>& y) {
    Env env;
    for (size_t i = 0; i < x.size(); i++)
      env[a.combine.left[i]] = x[i], env[a.combine.right[i]] = y[i];
    std::swap(env, env_);
    std::vector<Number> out;
    for (const Expr& e : a.combine.result) out.push_back(eval(e));
    std::swap(env, env_);
    return out;
  }
  void put(const StageStore& store) {
    if (store.guard && !eval(store.guard).integer) return;
    Memory& m = memory_.at(store.buffer);
    std::vector<int64_t> index;
    for (const Expr& e : store.index) index.push_back(eval(e).integer);
    const int64_t flat = flatIndex(m.plan->type.extents(), index);
    for (size_t i = 0; i < m.low.size(); i++)
      if (index[i] < m.low[i] || index[i] >= m.high[i])
        throw std::runtime_error("store outside of " + store.buffer + "'s region");
    const Number v = eval(store.value);
    const size_t at = static_cast<size_t>(flat);
    Number now = v;
    if (!store.combine.empty()) {
      const Combine c = builtinCombine(store.combine, m.plan->type.dtype);
      Env env{{c.left[0], {m.tensor.real[at], m.tensor.integer[at]}}, {c.right[0], v}};
      std::swap(env, env_);
      now = eval(c.result[0]);
      std::swap(env, env_);
    }
    if (m.plan->feedsMoreStages && m.written[at])
      m.written[at]--;  // a scatter stores into its copy
    m.written[at]++;
    if (isFloat(m.plan->type.dtype))
      m.tensor.real[at] = now.real;
    else
      m.tensor.integer[at] = now.integer;
  }

  std::map<const ExprNode*, Number> memo_;
  Number eval(const Expr& e) {
    memo_.clear();
    return go(e);
  }
  Number go(const Expr& e) {
    if (const auto it = memo_.find(e.get()); it != memo_.end()) return it->second;
    const Number n = std::visit(overloaded{[&](const Imm& i) { return Number{i.real, i.integer}; },
                                           [&](const Var& v) {
                                             if (!env_.count(v.name))
                                               throw std::runtime_error("no variable " + v.name);
                                             return env_.at(v.name);
                                           },
                                           [&](const Load& l) { return read(l); },
                                           [&](const Cast& c) { return convert(e.type(), c.arg); },
                                           [&](const Apply& a) { return apply(e, a); }},
                                e->kind);
    return memo_[e.get()] = n;
  }
  Number read(const Load& l) {
    if (!memory_.count(l.buffer)) throw std::runtime_error("no buffer " + l.buffer);
    const Memory& m = memory_.at(l.buffer);
    std::vector<int64_t> index;
    for (const Expr& x : l.index) index.push_back(go(x).integer);
    const size_t flat = static_cast<size_t>(flatIndex(m.plan->type.extents(), index));
    for (size_t i = 0; i < m.low.size(); i++)
      if (index[i] < m.low[i] || index[i] >= m.high[i])
        throw std::runtime_error("read outside of " + l.buffer + "'s region");
    if (!m.written[flat]) throw std::runtime_error("read of " + l.buffer + " before it is written");
    return isFloat(m.plan->type.dtype) ? Number{m.tensor.real[flat], 0}
                                       : Number{0, m.tensor.integer[flat]};
  }
  Number convert(DType to, const Expr& arg) {
    const Number x = go(arg);
    if (isFloat(arg.type()))
      return isFloat(to) ? Number{roundTo(to, x.real), 0} : Number{0, saturateTo(to, x.real)};
    return isFloat(to) ? Number{roundTo(to, static_cast<double>(x.integer)), 0}
                       : Number{0, wrapTo(to, x.integer)};
  }
  Number apply(const Expr& e, const Apply& a) {
    if (a.op == Op::Select) return go(go(a.args[0]).integer ? a.args[1] : a.args[2]);
    const DType t = a.args[0].type();
    if (a.op == Op::ToBits) return {0, evalToBits(t, go(a.args[0]).real)};
    if (a.op == Op::FromBits) return {evalFromBits(e.type(), go(a.args[0]).integer), 0};
    if (!isFloat(t)) {
      std::vector<int64_t> args;
      for (const Expr& x : a.args) args.push_back(go(x).integer);
      return {0, evalInteger(a.op, t, args)};
    }
    std::vector<double> args;
    for (const Expr& x : a.args) args.push_back(go(x).real);
    const double r = evalFloat(a.op, args);
    return isFloat(e.type()) ? Number{r, 0} : Number{0, static_cast<int64_t>(r)};
  }
};

}  // namespace

std::vector<TestTensor> runPlan(const GroupPlan& plan, const Graph&,
                                const std::map<Value, TestTensor>& leaves) {
  return Executor(plan).run(leaves);
}

std::vector<TestTensor> runGroups(const Graph& g, const std::vector<TestTensor>& inputs) {
  std::map<Value, TestTensor> values;
  const auto constant = [](const Node& n) {
    const Const& c = *n.as<Const>();
    TestTensor t{n.results[0], {}, {}};
    for (int64_t k = 0; k < t.type.elements(); k++) {
      const bool real = isFloat(t.type.dtype);
      const Imm splat = c.data ? Imm{} : *c.splat.as<Imm>();
      t.real.push_back(!real ? 0 : c.data ? loadFloat(t.type.dtype, c.data->data, k) : splat.real);
      t.integer.push_back(real     ? 0
                          : c.data ? loadInteger(t.type.dtype, c.data->data, k)
                                   : splat.integer);
    }
    return t;
  };
  size_t next = 0;
  for (int n = 0; n < static_cast<int>(g.nodes.size()); n++) {
    const Node& node = g.nodes[n];
    if (node.as<Input>()) values[Value{n, 0}] = inputs.at(next++);
    if (node.as<Const>()) values[Value{n, 0}] = constant(node);
    const Group* group = node.as<Group>();
    if (!group) continue;
    std::map<Value, TestTensor> leaves;
    size_t input = 0;
    for (int i = 0; i < static_cast<int>(group->body->nodes.size()); i++) {
      const Node& leaf = group->body->nodes[i];
      if (leaf.as<Input>()) leaves[Value{i, 0}] = values.at(node.operands[input++]);
      if (leaf.as<Const>()) leaves[Value{i, 0}] = constant(leaf);
    }
    const auto out = runPlan(*group->plan, *group->body, leaves);
    for (size_t r = 0; r < out.size(); r++) values[Value{n, static_cast<int>(r)}] = out[r];
  }
  std::vector<TestTensor> out;
  for (const Value& v : g.outputs) out.push_back(values.at(v));
  return out;
}

}  // namespace tektite
