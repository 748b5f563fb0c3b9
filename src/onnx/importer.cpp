#include "onnx/importer.h"

#include <algorithm>

#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr size_t kMostFrames = 64;

/// The name behind copies.
std::string copiedFrom(const onnx::GraphProto& g, std::string name) {
  for (int i = g.node_size(); i-- > 0;) {
    const onnx::NodeProto& n = g.node(i);
    if (n.op_type() == "Identity" && domainOf(n.domain()).empty() && n.input_size() == 1 &&
        n.output_size() == 1 && n.output(0) == name)
      name = n.input(0);
  }
  return name;
}

}  // namespace

bool isFixed(const std::vector<FixedState>& fixed, int number, int before) {
  return std::any_of(fixed.begin(), fixed.end(),
                     [&](const FixedState& f) { return f.state + before == number; });
}

std::vector<Value> withFixed(const std::vector<Value>& results,
                             const std::vector<FixedState>& fixed) {
  std::vector<Value> all = results;
  for (const FixedState& f : fixed)  // ascending
    all.insert(all.begin() + std::min<long>(f.state, static_cast<long>(all.size())), f.value);
  return all;
}

void readFromOutside(const NodeList& nodes, int first, Names& own, Names& out) {
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.count(name)) out.insert(name);
  };
  for (int i = first; i < nodes.size(); i++) {
    for (const auto& in : nodes[i].input()) read(in);
    for (const auto& a : nodes[i].attribute()) {
      if (!a.has_g()) continue;
      Names inner;
      readFromOutside(a.g(), inner);
      for (const auto& name : inner) read(name);
    }
    for (const auto& o : nodes[i].output()) own.insert(o);
  }
}

void readFromOutside(const onnx::GraphProto& g, Names& out) {
  Names own;
  for (const auto& i : g.input()) own.insert(i.name());
  for (const auto& i : g.initializer()) own.insert(i.name());
  readFromOutside(g.node(), 0, own, out);
  for (const auto& o : g.output())
    if (!own.count(o.name())) out.insert(o.name());
}

std::string dimName(const std::string& from) {
  std::string out;
  for (const char c : from)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out = "_" + out;
  const bool coordinate =
      out[0] == 'd' && out.find_first_not_of("0123456789", 1) == std::string::npos;
  if (coordinate || out == "x" || opFromName(out) || dtypeFromName(out)) out += "_";
  return out;
}

std::string domainOf(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string nodeName(const onnx::NodeProto& n, int index) {
  return n.name().empty() ? fmt::format("{}_{}", n.op_type(), index) : n.name();
}

std::string nodeName(const Frame& f, int index) {
  return f.prefix + nodeName((*f.list)[index], index);
}

Source::Source(const std::string& path) : model(path) {
  const onnx::ModelProto& m = model.proto();
  for (const auto& o : m.opset_import()) {
    int64_t& version = opsets[domainOf(o.domain())];
    version = std::max(version, o.version());
  }
  for (const auto& f : m.functions()) functions[{f.domain(), f.name()}] = &f;
}

Importer::Importer(std::shared_ptr<const Source> source, std::vector<Frame> frames)
    : frames(std::move(frames)), source_(std::move(source)) {}

const onnx::NodeProto& Importer::current() const {
  return (*frames.back().list)[frames.back().next];
}

std::string Importer::place() const {
  return fmt::format("node '{}' ({})", nodeName(frames.back(), frames.back().next),
                     current().op_type());
}

void Importer::refuse(const std::string& why) const { userError("{}: {}", place(), why); }

const onnx::GraphProto& Importer::graphAttribute(const std::string& name) const {
  for (const auto& a : current().attribute()) {
    if (a.name() != name) continue;
    const auto& known = frames.back().scope->attributes;
    const auto referred = known.find(a.ref_attr_name());
    return (referred == known.end() ? &a : referred->second)->g();
  }
  refuse(fmt::format("attribute '{}' is missing", name));
}

Value Importer::bind(Builder& into, const Held& held) {
  if (held.constant) {
    const Node& n = *held.constant;
    const Const& c = *n.as<Const>();
    if (c.data) return into.constant(n.results[0], c.data, n.name);
    return into.add(n)[0];
  }
  const auto known = carried.find(held.carried);
  if (known != carried.end()) return known->second;
  return carried[held.carried] = into.input(
             held.name.empty() ? fmt::format("carried_{}", held.carried) : held.name, held.type);
}

Value Importer::lookup(Builder& into, Scope& scope, const std::string& name) {
  if (const auto at = scope.values.find(name); at != scope.values.end()) return at->second;
  if (const auto at = scope.held.find(name); at != scope.held.end()) {
    TEKTITE_CHECK(&into == &b, "'{}' is held outside of its graph", name);
    return scope.values[name] = bind(into, at->second);
  }
  if (const auto at = scope.initializers.find(name); at != scope.initializers.end()) {
    const TensorAttribute t = source_->model.tensor(*at->second);
    return scope.values[name] = into.constant(t.type, t.data, name);
  }
  return {};
}

std::shared_ptr<Scope> Importer::run() { return run(b, frames); }

std::shared_ptr<Scope> Importer::run(Builder& into, std::vector<Frame>& stack) {
  for (;;) {
    Frame& top = stack.back();
    if (top.next == top.list->size()) {
      if (stack.size() == 1) return top.scope;
      finish(into, stack);
      continue;
    }
    const onnx::NodeProto& n = (*top.list)[top.next];
    const std::string name = nodeName(top, top.next);
    const size_t depth = stack.size();
    try {
      node(into, stack, n, name);
    } catch (const UserError& e) {
      if (placed_) throw;  // an inner node said it
      placed_ = true;
      userError("node '{}' ({}): {}", name, n.op_type(), e.what());
    }
    stack[depth - 1].next++;
  }
}

/// The end of a function or a branch: its results get their names below.
void Importer::finish(Builder& into, std::vector<Frame>& stack) {
  const Frame done = std::move(stack.back());
  stack.pop_back();
  for (const auto& [own, below] : done.returns) {
    if (below.empty()) continue;
    const Value v = lookup(into, *done.scope, own);
    if (!v) userError("output '{}' of '{}' is not defined", own, done.prefix);
    stack.back().scope->values[below] = v;
  }
}

void Importer::assign(Scope& scope, const onnx::NodeProto& n, const std::vector<Value>& results) {
  for (int i = 0; i < n.output_size(); i++) {
    if (n.output(i).empty()) continue;
    if (static_cast<size_t>(i) >= results.size())
      userError("{} results are wanted, there are {}", n.output_size(), results.size());
    scope.values[n.output(i)] = results[static_cast<size_t>(i)];
  }
}

void Importer::finishPending(const Pending& p) {
  std::vector<Value> values = p.bound;
  for (const Held& h : p.values) values.push_back(bind(b, h));
  b.origin = p.origin;
  assign(*frames.back().scope, current(), p.then(b, values));
  frames.back().next++;
}

void Importer::node(Builder& into, std::vector<Frame>& stack, const onnx::NodeProto& n,
                    const std::string& name) {
  into.origin = name;
  if (branch(into, stack, n, name)) return;
  const std::shared_ptr<Scope> scope = stack.back().scope;
  OpCall call{n.op_type()};
  for (const auto& i : n.input()) {
    call.in.push_back(i.empty() ? Value{} : lookup(into, *scope, i));
    if (!i.empty() && !call.in.back()) userError("input '{}' is not defined by any node before", i);
  }
  call.outputs = 0;
  for (int i = 0; i < n.output_size(); i++)
    if (!n.output(i).empty()) call.outputs = i + 1;
  const std::string domain = domainOf(n.domain());
  const auto function = source_->functions.find({domain, n.op_type()});
  if (function != source_->functions.end()) {
    this->call(stack, *function->second, n, call.in, name);
    return;
  }
  const auto version = stack.back().opsets.find(domain);
  call.opset = static_cast<int>(version == stack.back().opsets.end() ? 1 : version->second);
  const std::vector<FixedState> fixed = fixedStates(into, *scope, n);
  for (auto f = fixed.rbegin(); f != fixed.rend(); ++f)
    call.in.erase(call.in.begin() + f->state + 2);
  if (!fixed.empty()) call.outputs = 0;  // counted when they have their names
  for (const auto& a : n.attribute()) attribute(into, stack.back(), call, a, name, fixed);
  assign(*scope, n, withFixed(buildOp(into, call, domain), fixed));
}

std::vector<FixedState> Importer::fixedStates(Builder& into, Scope& scope,
                                              const onnx::NodeProto& n) {
  std::vector<FixedState> fixed;
  if (n.op_type() != "Loop" || !domainOf(n.domain()).empty()) return fixed;
  for (const auto& a : n.attribute()) {
    if (a.name() != "body" || !a.has_g()) continue;
    const onnx::GraphProto& g = a.g();
    for (int i = 2; i < std::min({n.input_size(), g.input_size(), g.output_size() + 1}); i++)
      if (copiedFrom(g, g.output(i - 1).name()) == g.input(i).name())
        if (const Value v = lookup(into, scope, n.input(i)))
          fixed.push_back({i - 2, g.input(i).name(), v});
  }
  return fixed;
}

/// An If is one of its branches, whose nodes follow in a frame of their own, so that a part may end in it.
bool Importer::branch(Builder& into, std::vector<Frame>& stack, const onnx::NodeProto& n,
                      const std::string& name) {
  if (n.op_type() != "If" || !domainOf(n.domain()).empty() || n.input_size() != 1) return false;
  const std::shared_ptr<Scope> scope = stack.back().scope;
  const Value condition = lookup(into, *scope, n.input(0));
  if (!condition) userError("input '{}' is not defined by any node before", n.input(0));
  const auto known = scalarOf(into, condition);
  if (!known) throw NeedValue{condition, "the condition", {}, {}};
  for (const auto& a : n.attribute()) {
    if (a.name() != (*known ? "then_branch" : "else_branch") || !a.has_g()) continue;
    if (stack.size() >= kMostFrames) userError("branches are nested without end");
    Frame f{&a.g().node(), 0, name + "/", std::make_shared<Scope>(), stack.back().opsets, {}};
    f.scope->attributes = scope->attributes;
    for (const auto& t : a.g().initializer()) f.scope->initializers[t.name()] = &t;
    Names outside;
    readFromOutside(a.g(), outside);
    for (const std::string& o : outside)
      if (const Value v = lookup(into, *scope, o)) f.scope->values[o] = v;
    for (int i = 0; i < std::min(n.output_size(), a.g().output_size()); i++)
      f.returns.emplace_back(a.g().output(i).name(), n.output(i));
    stack.push_back(std::move(f));
    return true;
  }
  userError("attribute '{}' is missing", *known ? "then_branch" : "else_branch");
}

void Importer::call(std::vector<Frame>& stack, const onnx::FunctionProto& f,
                    const onnx::NodeProto& call, const std::vector<Value>& in,
                    const std::string& name) {
  if (stack.size() >= kMostFrames) userError("functions call each other without end");
  Frame frame{&f.node(), 0, name + "/", std::make_shared<Scope>(), stack.back().opsets, {}};
  Scope& scope = *frame.scope;
  for (int i = 0; i < f.input_size(); i++)
    scope.values[f.input(i)] =
        static_cast<size_t>(i) < in.size() ? in[static_cast<size_t>(i)] : Value{};
  const Scope& from = *stack.back().scope;
  for (const auto& a : call.attribute()) {
    const auto referred = from.attributes.find(a.ref_attr_name());
    scope.attributes[a.name()] =
        a.ref_attr_name().empty() || referred == from.attributes.end() ? &a : referred->second;
  }
  for (const auto& o : f.opset_import()) frame.opsets[domainOf(o.domain())] = o.version();
  for (int i = 0; i < std::min(call.output_size(), f.output_size()); i++)
    frame.returns.emplace_back(f.output(i), call.output(i));
  stack.push_back(std::move(frame));
}

void Importer::attribute(Builder& into, Frame& frame, OpCall& call,
                         const onnx::AttributeProto& given, const std::string& name,
                         const std::vector<FixedState>& fixed) {
  const onnx::AttributeProto* a = &given;
  if (!given.ref_attr_name().empty()) {
    const auto at = frame.scope->attributes.find(given.ref_attr_name());
    if (at == frame.scope->attributes.end()) return;  // the caller left it out: the default holds
    a = at->second;
  }
  Attribute& out = call.attributes[given.name()];
  using A = onnx::AttributeProto;
  switch (a->type()) {
    case A::INT: out = static_cast<int64_t>(a->i()); break;
    case A::FLOAT: out = static_cast<double>(a->f()); break;
    case A::STRING: out = a->s(); break;
    case A::INTS: out = std::vector<int64_t>(a->ints().begin(), a->ints().end()); break;
    case A::FLOATS: out = std::vector<double>(a->floats().begin(), a->floats().end()); break;
    case A::STRINGS:
      out = std::vector<std::string>(a->strings().begin(), a->strings().end());
      break;
    case A::TENSOR: out = source_->model.tensor(a->t()); break;
    case A::GRAPH: out = body(into, frame, a->g(), name, fixed); break;
    default: userError("attribute '{}' is of a kind that is not supported", given.name());
  }
}

/// The body refers to the model and to this importer: it is built while the node is imported.
Body Importer::body(Builder& into, Frame& frame, const onnx::GraphProto& g, const std::string& name,
                    const std::vector<FixedState>& fixed) {
  Names outside;
  readFromOutside(g, outside);
  Body out;
  std::vector<std::string> captured;
  const std::shared_ptr<Scope> scope = frame.scope;
  for (const std::string& o : outside)
    if (const Value v = lookup(into, *scope, o)) {
      captured.push_back(o);
      out.captured.push_back(v);
    }
  for (const FixedState& f : fixed) {
    captured.push_back(f.inside);
    out.captured.push_back(f.value);
  }
  std::vector<std::string> open;
  for (int i = 0; i < g.input_size(); i++)
    if (!isFixed(fixed, i, 2)) open.push_back(g.input(i).name());
  for (const auto& i : g.input()) {
    if (std::find(open.begin(), open.end(), i.name()) == open.end()) continue;
    const auto& tensor = i.type().tensor_type();
    out.inputs.push_back(i.name());
    out.inputTypes.push_back(
        {tensor.elem_type() ? dtypeOfNumber(tensor.elem_type()) : DType::Bool, {}});
  }
  out.build = [this, &g, scope, captured, open, fixed, name, opsets = frame.opsets](
                  Builder& inner, const std::vector<Value>& inputs,
                  const std::vector<Value>& around) {
    std::vector<Frame> stack(1);
    stack[0] = {&g.node(), 0, name + "/", std::make_shared<Scope>(), opsets, {}};
    Scope& own = *stack[0].scope;
    own.attributes = scope->attributes;
    for (size_t i = 0; i < captured.size(); i++) own.values[captured[i]] = around.at(i);
    for (const auto& t : g.initializer()) own.initializers[t.name()] = &t;
    for (size_t i = 0; i < open.size(); i++) own.values[open[i]] = inputs.at(i);
    run(inner, stack);
    inner.origin = name;
    std::vector<Value> results;
    for (int i = 0; i < g.output_size(); i++) {
      if (isFixed(fixed, i, 1)) continue;
      results.push_back(lookup(inner, own, g.output(i).name()));
      if (!results.back()) userError("output '{}' of its graph is not defined", g.output(i).name());
    }
    return results;
  };
  return out;
}

}  // namespace tektite
