#include "onnx/cut.h"

#include <atomic>

#include "ir/graph_eval.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Copies whose scopes are this part's own, their carried values with types.
std::vector<Frame> ownFrames(const ImportState& state, const std::map<int, TensorType>& types) {
  std::vector<Frame> frames = state.frames;
  for (Frame& f : frames) {
    f.scope = std::make_shared<Scope>(*f.scope);
    for (auto& [name, held] : f.scope->held)
      if (const auto at = types.find(held.carried); at != types.end()) held.type = at->second;
  }
  return frames;
}

/// Names that are read from a frame's next node on. The names that it returns count.
Names liveIn(const Frame& f, bool first, const std::vector<std::string>& results, int next) {
  Names own, out;
  readFromOutside(*f.list, next, own, out);
  for (const auto& [name, below] : f.returns)
    if (!own.count(name)) out.insert(name);
  if (first)
    for (const std::string& name : results)
      if (!own.count(name)) out.insert(name);
  return out;
}

/// A stacked result's type, for a loop that makes no step.
std::optional<TensorType> declaredType(const onnx::ValueInfoProto& o) {
  const auto& t = o.type().tensor_type();
  if (!t.elem_type() || !t.has_shape()) return std::nullopt;
  TensorType type{dtypeOfNumber(t.elem_type()), {}};
  for (const auto& d : t.shape().dim())
    type.shape.emplace_back(std::max<int64_t>(d.has_dim_value() ? d.dim_value() : 0, 0));
  return type;
}

}  // namespace

std::shared_ptr<Rest> newRest() {
  static std::atomic<int64_t> next{0};
  auto rest = std::make_shared<Rest>();
  rest->number = next++;
  return rest;
}

PartImporter::PartImporter(const Rest& rest, const std::map<int, TensorType>& types,
                           const std::map<int, std::shared_ptr<const ConstData>>& values)
    : rest_(rest),
      state_(*rest.state),
      importer_(state_.source, ownFrames(state_, types)),
      nextCarried_(state_.nextCarried) {
  for (const int id : rest.valued) {
    const auto type = types.find(id);
    importer_.carried[id] = importer_.b.constant(
        type == types.end() ? state_.types.at(id) : type->second, values.at(id));
  }
  if (!state_.pending) return;
  pending_ = *state_.pending;
  for (Held& h : pending_->values)
    if (const auto at = types.find(h.carried); at != types.end()) h.type = at->second;
}

Part PartImporter::run() {
  for (;;) {
    try {
      if (pending_) importer_.finishPending(*std::exchange(pending_, {}));
      importer_.run();
      end();
      break;
    } catch (const NeedValue& need) {
      if (pause(need)) break;
    } catch (const HostLoop& loop) {
      pause(loop);
      break;
    }
  }
  std::map<Value, int> numbers;
  for (const auto& [id, v] : importer_.carried) numbers[v] = id;
  for (const Value v : importer_.b.graph.inputs()) part_.inputs.push_back(numbers.at(v));
  part_.graph = std::move(importer_.b.graph);
  return std::move(part_);
}

/// The number of a value that leaves the part.
int PartImporter::carry(Value v) {
  for (const auto& [id, value] : importer_.carried)
    if (value == v && importer_.b.graph.node(v).as<Input>()) return id;
  const auto [at, isNew] = numbers_.emplace(v, nextCarried_);
  if (isNew) {
    part_.outputs.push_back(nextCarried_++);
    importer_.b.graph.outputs.push_back(v);
    importer_.b.graph.outputNames.push_back(fmt::format("carried_{}", at->second));
  }
  return at->second;
}

Held PartImporter::hold(Value v, bool asCarried) {
  Builder& b = importer_.b;
  if (!asCarried) {
    Value constant = b.graph.node(v).as<Const>() ? v : Value{};
    const auto known = b.known(v);
    if (!constant && known && !known->empty() && integersOf(b, v)) {
      const auto numbers = *integersOf(b, v);
      constant = b.fromKnown({numbers.begin(), numbers.end()}, b.rank(v) == 0, b.dtype(v));
    }
    if (constant) return {std::make_shared<const Node>(b.graph.node(constant)), -1, b.type(v), ""};
  }
  const int id = carry(v);
  return {nullptr, id, b.type(v), ""};
}

void PartImporter::end() {
  Scope& scope = *importer_.frames[0].scope;
  for (size_t i = 0; i < state_.results.size(); i++) {
    const std::string& name = state_.results[i];
    const Value v = importer_.lookup(importer_.b, scope, name);
    if (!v) userError("output '{}' is not defined by any node", name);
    const size_t before = part_.outputs.size();
    part_.results.push_back(carry(v));
    if (part_.outputs.size() > before) importer_.b.graph.outputNames.back() = name;
  }
}

/// A value that is an input of this part, in another shape perhaps.
std::optional<int> PartImporter::inputBehind(Value v) const {
  const Graph& g = importer_.b.graph;
  for (;;) {
    for (const auto& [id, value] : importer_.carried)
      if (value == v && g.node(v).as<Input>()) return id;
    const View* view = g.node(v).as<View>();
    if (!view || view->fill || g.node(v).operands.size() != 1 ||
        g.type(v).elements() != g.type(g.node(v).operands[0]).elements())
      return std::nullopt;
    v = g.node(v).operands[0];
  }
}

/// The value as a constant, where it follows from constants alone.
std::optional<Value> PartImporter::computed(Value v) {
  Builder& b = importer_.b;
  std::vector<bool> needed(b.graph.nodes.size());
  needed[static_cast<size_t>(v.node)] = true;
  for (int i = v.node; i >= 0; i--) {
    if (!needed[static_cast<size_t>(i)]) continue;
    const Node& n = b.graph.nodes[static_cast<size_t>(i)];
    if (n.as<Input>()) return std::nullopt;
    for (const Value o : n.operands) needed[static_cast<size_t>(o.node)] = true;
  }
  Graph g;
  std::map<int, int> to;
  for (int i = 0; i <= v.node; i++) {
    if (!needed[static_cast<size_t>(i)]) continue;
    Node n = b.graph.nodes[static_cast<size_t>(i)];
    for (Value& o : n.operands) o.node = to.at(o.node);
    to[i] = g.add(std::move(n)).node;
  }
  g.outputs = {{to.at(v.node), v.result}};
  return b.constant(b.type(v), evaluate(g, {}).at(0).toConst());
}

void PartImporter::replace(Value from, Value to) {
  for (Frame& f : importer_.frames)
    for (auto& [name, v] : f.scope->values)
      if (v == from) v = to;
}

/// Nothing is done in this part: the next one is it again, with the elements of an input.
void PartImporter::beginAgainWith(int input) {
  auto again = newRest();
  const int64_t number = again->number;
  *again = rest_;
  again->number = number;
  again->valued.push_back(input);
  auto state = std::make_shared<ImportState>(state_);
  state->types[input] = importer_.b.type(importer_.carried.at(input));
  again->state = std::move(state);
  part_.rest = again;
  part_.outputs.clear();
  numbers_.clear();
  importer_.b = {};
  importer_.carried.clear();
}

/// Ends the part, unless the value follows from constants.
bool PartImporter::pause(const NeedValue& need) {
  if (importer_.b.graph.node(need.value).as<Const>())
    importer_.refuse(fmt::format("{} is {}", need.what, toText(importer_.b.type(need.value))));
  if (const auto constant = computed(need.value)) {
    if (!need.then) {
      replace(need.value, *constant);
      return false;
    }
    pending_.emplace();
    pending_->then = [then = need.then](Builder& b, const std::vector<Value>& v) {
      return then(b, v[0], {v.begin() + 1, v.end()});
    };
    pending_->origin = importer_.b.origin;
    pending_->bound = {*constant};
    pending_->bound.insert(pending_->bound.end(), need.keep.begin(), need.keep.end());
    return false;
  }
  part_.asks = fmt::format("{} of {}", need.what, importer_.place());
  if (const auto id = need.then ? std::nullopt : inputBehind(need.value)) {
    beginAgainWith(*id);
    return true;
  }
  const Held value = hold(need.value, true);
  std::optional<Pending> then;
  if (need.then) {
    then.emplace();
    then->then = [f = need.then](Builder& b, const std::vector<Value>& v) {
      return f(b, v[0], {v.begin() + 1, v.end()});
    };
    then->origin = importer_.b.origin;
    then->values = {value};
    for (const Value k : need.keep) then->values.push_back(hold(k));
  }
  part_.rest = restFrom(std::move(then), {}, {value});
  return true;
}

void PartImporter::pause(const HostLoop& loop) {
  if (loop.body.empty()) importer_.refuse(loop.what);
  part_.asks = fmt::format("{} ({})", importer_.place(), loop.what);
  const std::vector<FixedState> fixed =
      importer_.fixedStates(importer_.b, *importer_.frames.back().scope, importer_.current());
  LoopPart l = loopPart(loop, fixed);
  Pending then;
  then.origin = importer_.b.origin;
  then.then = [f = loop.then, fixed, count = l.results.size()](Builder& b,
                                                               const std::vector<Value>& v) {
    std::vector<Value> results(v.begin(), v.begin() + static_cast<long>(count));
    if (f) results = f(b, results);
    std::vector<FixedState> handed = fixed;
    for (size_t i = 0; i < fixed.size(); i++) handed[i].value = v[count + i];
    return withFixed(results, handed);
  };
  for (const int id : l.results) then.values.push_back({nullptr, id, {}, ""});
  for (const FixedState& f : fixed) then.values.push_back(hold(f.value));
  const std::vector<int> results = l.results;
  part_.loop = std::move(l);
  part_.rest = restFrom(std::move(then), results, {});
}

LoopPart PartImporter::loopPart(const HostLoop& loop, const std::vector<FixedState>& fixed) {
  LoopPart l;
  l.origin = importer_.b.origin;
  l.counted = loop.counted;
  l.reverse = loop.reverse;
  if (loop.trips) l.trips = carry(loop.trips);
  if (loop.condition) l.condition = carry(loop.condition);
  for (const Value v : loop.states) l.states.push_back(carry(v));
  for (const Value v : loop.scanned) l.scanned.push_back(carry(v));
  const onnx::GraphProto& g = importer_.graphAttribute(loop.body);
  const size_t control = loop.counted ? 1 : 0,
               given = 2 * control + l.states.size() + l.scanned.size(),
               least = control + fixed.size() + l.states.size();
  const auto found = static_cast<size_t>(g.output_size());
  if (static_cast<size_t>(g.input_size()) != given + fixed.size())
    importer_.refuse(
        fmt::format("its graph has {} inputs, expected {}", g.input_size(), given + fixed.size()));
  if (found < least)
    importer_.refuse(fmt::format("its graph has {} outputs, expected {} at least", found, least));
  l.body = bodyOf(g, l, fixed);
  if (l.bodyInputs.size() != given) importer_.refuse("two inputs of its graph have one name");
  for (size_t i = control + fixed.size(); i < found; i++) l.results.push_back(nextCarried_++);
  return l;
}

/// What a loop's steps import: its graph, with what it reads from around it held.
RestPtr PartImporter::bodyOf(const onnx::GraphProto& g, LoopPart& loop,
                             const std::vector<FixedState>& fixed) {
  const Frame& around = importer_.frames.back();
  auto state = std::make_shared<ImportState>();
  state->source = state_.source;
  Frame f{&g.node(), 0, loop.origin + "/", std::make_shared<Scope>(), around.opsets, {}};
  f.scope->attributes = around.scope->attributes;
  for (const auto& t : g.initializer()) f.scope->initializers[t.name()] = &t;
  Names outside;
  readFromOutside(g, outside);
  for (const std::string& name : outside)
    if (const Value v = importer_.lookup(importer_.b, *around.scope, name))
      f.scope->held[name] = hold(v);
  for (const FixedState& s : fixed) f.scope->held[s.inside] = hold(s.value);
  auto rest = newRest();
  for (const auto& i : g.input()) {
    if (f.scope->held.count(i.name())) continue;
    const auto& t = i.type().tensor_type();
    TensorType type{t.elem_type() ? dtypeOfNumber(t.elem_type()) : DType::Bool, {}};
    loop.bodyInputs.push_back(nextCarried_);
    f.scope->held[i.name()] = {nullptr, nextCarried_++, type, i.name()};
  }
  const size_t whole = loop.states.size() + (loop.counted ? 1 : 0);
  for (int i = 0; i < g.output_size(); i++) {
    if (isFixed(fixed, i, 1)) continue;
    const auto& o = g.output(i);
    state->results.push_back(o.name());
    if (state->results.size() > whole) loop.declared.push_back(declaredType(o));
  }
  state->frames.push_back(std::move(f));
  rest->shaped = loop.bodyInputs;
  for (const auto& [name, held] : state->frames[0].scope->held)
    if (held.carried >= 0) rest->reads.push_back(held.carried);
  state->nextCarried = nextCarried_;
  rest->state = std::move(state);
  return rest;
}

/// From the current node on; after it, where `then` makes its results.
RestPtr PartImporter::restFrom(std::optional<Pending> then, std::vector<int> shaped,
                               std::vector<Held> valued) {
  auto state = std::make_shared<ImportState>();
  auto rest = newRest();
  state->source = state_.source;
  state->results = state_.results;
  std::set<int> reads(shaped.begin(), shaped.end());
  const auto read = [&](const Held& h) {
    if (h.carried >= 0) reads.insert(h.carried);
  };
  const std::vector<Frame>& frames = importer_.frames;
  for (size_t i = 0; i < frames.size(); i++) {
    Frame f = frames[i];
    f.scope = std::make_shared<Scope>();
    f.scope->initializers = frames[i].scope->initializers;
    f.scope->attributes = frames[i].scope->attributes;
    const bool top = i + 1 == frames.size();
    for (const std::string& name : liveIn(f, i == 0, state_.results, f.next + (top && then))) {
      const auto value = frames[i].scope->values.find(name);
      const auto held = frames[i].scope->held.find(name);
      if (value != frames[i].scope->values.end() && value->second)
        read(f.scope->held[name] = hold(value->second));
      else if (held != frames[i].scope->held.end())
        read(f.scope->held[name] = held->second);
    }
    state->frames.push_back(std::move(f));
  }
  for (const Held& h : valued) {
    state->types[h.carried] = h.type;
    rest->valued.push_back(h.carried);
    read(h);
  }
  if (then)
    for (const Held& h : then->values) read(h);
  state->pending = std::move(then);
  state->nextCarried = nextCarried_;
  rest->shaped = std::move(shaped);
  rest->reads.assign(reads.begin(), reads.end());
  rest->state = std::move(state);
  return rest;
}

}  // namespace tektite
