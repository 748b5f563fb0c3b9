#include "ir/graph.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "ir/dims.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {

bool TensorType::isStatic() const {
  return std::all_of(shape.begin(), shape.end(),
                     [](const Expr& e) { return asInteger(e).has_value(); });
}

int64_t TensorType::extent(int axis) const {
  TEKTITE_CHECK(axis >= 0 && axis < rank(), "axis {} of {}", axis, toText(*this));
  const auto value = asInteger(shape[axis]);
  TEKTITE_CHECK(value, "axis {} of {} has no static extent", axis, toText(*this));
  return *value;
}

int64_t TensorType::elements() const {
  constexpr int64_t kMost = INT64_MAX / 64;  // bytes and sums of it are numbers too
  int64_t n = 1;
  for (int i = 0; i < rank(); i++)
    if (__builtin_mul_overflow(n, extent(i), &n) || n > kMost) n = kMost;
  return n;
}

std::vector<int64_t> TensorType::extents() const {
  std::vector<int64_t> out;
  for (int i = 0; i < rank(); i++) out.push_back(extent(i));
  return out;
}

std::string toText(const TensorType& t) {
  std::string out(name(t.dtype));
  if (t.shape.empty()) return out;
  const std::string_view sign = t.isStatic() ? "x" : " x ";
  out += '[';
  for (int i = 0; i < t.rank(); i++) out += (i ? std::string(sign) : "") + toText(t.shape[i]);
  return out + ']';
}

void ConstData::forget() const {
  if (!mapped) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

Hash ConstData::hash() const {
  static std::mutex guard;
  {
    const std::lock_guard lock(guard);
    if (hash_) return *hash_;
  }
  Hasher h;
  h.add(std::string_view(static_cast<const char*>(data), data ? bytes : 0));
  forget();
  const auto value = std::make_shared<Hash>(h.finish());
  const std::lock_guard lock(guard);
  hash_ = value;
  return *value;
}

Value Graph::add(Node node) {
  nodes.push_back(std::move(node));
  return {static_cast<int>(nodes.size()) - 1, 0};
}

std::vector<Value> Graph::inputs() const {
  std::vector<Value> out;
  for (int i = 0; i < static_cast<int>(nodes.size()); i++)
    if (nodes[i].as<Input>()) out.push_back({i, 0});
  return out;
}

Ranges Graph::ranges() const {
  Ranges out;
  for (const auto& [name, range] : dims) out[name] = {range.low, range.high};
  return out;
}

// ---- structural hash

namespace {

void hashType(Hasher& h, const TensorType& t) {
  h.add(static_cast<int>(t.dtype)).add(t.rank());
  for (const Expr& e : t.shape) h.add(e.hash());
}
void hashExpr(Hasher& h, const Expr& e) { h.add(e ? e.hash() : Hash{}); }
void hashExprs(Hasher& h, const std::vector<Expr>& list) {
  h.add(static_cast<int>(list.size()));
  for (const Expr& e : list) hashExpr(h, e);
}
void hashCombine(Hasher& h, const Combine& c) {
  for (const auto* names : {&c.left, &c.right}) {
    h.add(static_cast<int>(names->size()));
    for (const std::string& name : *names) h.add(name);
  }
  for (DType t : c.types) h.add(static_cast<int>(t));
  hashExprs(h, c.result);
  hashExprs(h, c.identity);
}
void hashView(Hasher& h, const View& v) {
  hashExprs(h, v.index);
  hashExpr(h, v.guard);
  hashExpr(h, v.fill);
}

Hash hashGraph(const Graph& g, bool outermost);

void hashNested(Hasher& h, const std::shared_ptr<const Graph>& g) { h.add(hashGraph(*g, false)); }

void hashKind(Hasher& h, const NodeKind& kind) {
  h.add(static_cast<int>(kind.index()));
  std::visit(
      overloaded{[](const Input&) {},
                 [&](const Const& c) {
                   hashExpr(h, c.splat);
                   if (c.data) h.add(c.data->hash());
                 },
                 [&](const Map& m) { hashExpr(h, m.body); },
                 [&](const Reduce& r) {
                   hashCombine(h, r.combine);
                   for (int axis : r.axes) h.add(axis);
                 },
                 [&](const Contract& c) {
                   for (const std::string& labels : c.inputs) h.add(labels);
                   h.add(c.output);
                 },
                 [&](const View& v) { hashView(h, v); }, [&](const Gather& v) { hashView(h, v); },
                 [&](const Concat& c) { h.add(c.axis); },
                 [&](const Update& u) {
                   hashExprs(h, u.index);
                   h.add(u.combine);
                 },
                 [&](const Branch& b) {
                   hashNested(h, b.then);
                   hashNested(h, b.otherwise);
                 },
                 [&](const Loop& l) {
                   h.add(l.states);
                   hashNested(h, l.body);
                 },
                 [&](const Scan& s) {
                   h.add(s.states).add(s.scanned);
                   for (bool reverse : s.reverse) h.add(static_cast<int>(reverse));
                   hashNested(h, s.body);
                 },
                 [&](const Call& c) {
                   h.add(c.routine);
                   for (const auto& [name, values] : c.numbers) {
                     h.add(name).add(static_cast<int>(values.size()));
                     for (double v : values) h.add(v);
                   }
                   for (const auto& [name, text] : c.texts) h.add(name).add(text);
                 },
                 [&](const Group& g) { hashNested(h, g.body); }},
      kind);
}

/// Operands count by their number in `numbers`; without it by their place.
void hashNode(Hasher& h, const Node& n, const std::vector<int>* numbers) {
  hashKind(h, n.kind);
  h.add(static_cast<int>(n.operands.size())).add(static_cast<int>(n.results.size()));
  for (Value v : n.operands) h.add(numbers ? (*numbers)[v.node] : v.node).add(v.result);
  for (const TensorType& t : n.results) hashType(h, t);
}

Hash hashGraph(const Graph& g, bool outermost) {
  Hasher h;
  const std::vector<int> numbers = valueNumbers(g);
  std::vector<int> order(numbers.size());
  for (size_t i = 0; i < numbers.size(); i++)
    order[static_cast<size_t>(numbers[i])] = static_cast<int>(i);
  for (int i : order) hashNode(h, g.nodes[i], &numbers);
  for (Value v : g.outputs) h.add(numbers[v.node]).add(v.result);
  if (outermost)
    for (const auto& [name, range] : g.dims) h.add(name).add(range.low).add(range.high);
  return h.finish();
}

}  // namespace

std::vector<int> valueNumbers(const Graph& g) {
  std::vector<int> numbers(g.nodes.size());
  int next = 0;
  for (const bool input : {true, false})
    for (size_t i = 0; i < g.nodes.size(); i++)
      if ((g.nodes[i].as<Input>() != nullptr) == input) numbers[i] = next++;
  return numbers;
}

Hash Graph::hash() const { return hashGraph(*this, true); }
Hash hashOf(const Node& n) {
  Hasher h;
  hashNode(h, n, nullptr);
  return h.finish();
}

// ---- helpers

std::string coordinate(int axis) { return fmt::format("d{}", axis); }
std::string operandName(int i) { return fmt::format("${}", i); }

std::string_view kindName(const NodeKind& kind) {
  return std::visit(
      overloaded{[](const Input&) { return "input"; }, [](const Const&) { return "const"; },
                 [](const Map&) { return "map"; }, [](const Reduce&) { return "reduce"; },
                 [](const Contract&) { return "contract"; }, [](const View&) { return "view"; },
                 [](const Gather&) { return "gather"; }, [](const Concat&) { return "concat"; },
                 [](const Update&) { return "update"; }, [](const Branch&) { return "if"; },
                 [](const Loop&) { return "loop"; }, [](const Scan&) { return "scan"; },
                 [](const Call&) { return "call"; }, [](const Group&) { return "group"; }},
      kind);
}

std::vector<std::vector<int>> usersOf(const Graph& g) {
  std::vector<std::vector<int>> users(g.nodes.size());
  for (int i = 0; i < static_cast<int>(g.nodes.size()); i++)
    for (Value v : g.nodes[i].operands)
      if (std::vector<int>& u = users[v.node]; u.empty() || u.back() != i) u.push_back(i);
  return users;
}

Node mapExprs(const Node& n, const std::function<Expr(const Expr&)>& f) {
  Node out = n;
  const auto one = [&](Expr& e) {
    if (e) e = f(e);
  };
  const auto all = [&](std::vector<Expr>& list) {
    for (Expr& e : list) one(e);
  };
  const auto view = [&](View& v) {
    all(v.index);
    one(v.guard);
  };
  for (TensorType& t : out.results) all(t.shape);
  std::visit(overloaded{[](Input&) {}, [](Const&) {}, [&](Map& m) { one(m.body); }, [](Reduce&) {},
                        [](Contract&) {}, [&](View& v) { view(v); }, [&](Gather& v) { view(v); },
                        [](Concat&) {}, [&](Update& u) { all(u.index); }, [](Branch&) {},
                        [](Loop&) {}, [](Scan&) {}, [](Call&) {}, [](Group&) {}},
             out.kind);
  return out;
}

std::vector<std::shared_ptr<const Graph>> nestedGraphs(const Node& n) {
  using List = std::vector<std::shared_ptr<const Graph>>;
  return std::visit(
      overloaded{[](const Input&) { return List{}; }, [](const Const&) { return List{}; },
                 [](const Map&) { return List{}; }, [](const Reduce&) { return List{}; },
                 [](const Contract&) { return List{}; }, [](const View&) { return List{}; },
                 [](const Gather&) { return List{}; }, [](const Concat&) { return List{}; },
                 [](const Update&) { return List{}; },
                 [](const Branch& b) { return List{b.then, b.otherwise}; },
                 [](const Loop& l) { return List{l.body}; },
                 [](const Scan& s) { return List{s.body}; }, [](const Call&) { return List{}; },
                 [](const Group& g) { return List{g.body}; }},
      n.kind);
}

Node withNested(Node n, const std::vector<std::shared_ptr<const Graph>>& graphs) {
  if (Branch* b = std::get_if<Branch>(&n.kind)) {
    b->then = graphs[0];
    b->otherwise = graphs[1];
  }
  if (Loop* l = std::get_if<Loop>(&n.kind)) l->body = graphs[0];
  if (Scan* s = std::get_if<Scan>(&n.kind)) s->body = graphs[0];
  if (Group* g = std::get_if<Group>(&n.kind)) g->body = graphs[0];
  return n;
}

// ---- dims

namespace {

Graph bound(const Graph& g, const std::unordered_map<std::string, Expr>& numbers) {
  Graph out = g;
  for (const auto& [name, e] : numbers) out.dims.erase(name);
  for (Node& n : out.nodes) {
    n = mapExprs(n, [&](const Expr& e) { return substitute(e, numbers); });
    std::vector<std::shared_ptr<const Graph>> nested = nestedGraphs(n);
    for (auto& body : nested) body = std::make_shared<const Graph>(bound(*body, numbers));
    n = withNested(std::move(n), nested);
  }
  return out;
}

}  // namespace

Graph bindDims(const Graph& g, const std::map<std::string, int64_t>& values) {
  std::unordered_map<std::string, Expr> numbers;
  for (const auto& [name, value] : values) {
    const auto it = g.dims.find(name);
    if (it == g.dims.end()) {
      std::string known;
      for (const auto& [dim, range] : g.dims) known += (known.empty() ? "" : ", ") + dim;
      userError("dim '{}': the graph has no such dim, expected {}", name,
                known.empty() ? "none" : "one of " + known);
    }
    if (value < it->second.low || value > it->second.high)
      userError("dim '{}': found {}, expected {}..{}", name, value, it->second.low,
                it->second.high);
    numbers.emplace(name, Expr(value));
  }
  return numbers.empty() ? g : bound(g, numbers);
}

}  // namespace tektite
