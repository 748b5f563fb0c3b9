#include "onnx/order.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "onnx/importer.h"
#include "support/check.h"

namespace tektite {
namespace {

Names readBy(const onnx::NodeProto& n) {
  Names out(n.input().begin(), n.input().end());
  for (const auto& a : n.attribute())
    if (a.has_g()) readFromOutside(a.g(), out);
  return out;
}

/// The order of one list: a depth-first walk over what is read, without recursion, since chains may be long.
class Order {
 public:
  /// `known`: has values before the first node.
  Order(const NodeList& nodes, const Names& known)
      : nodes_(nodes), state_(static_cast<size_t>(nodes.size())) {
    for (int i = 0; i < nodes.size(); i++)
      for (const auto& o : nodes[i].output())
        if (!o.empty() && !known.count(o)) definedBy_.try_emplace(o, i);
    for (int i = 0; i < nodes.size(); i++) visit(i);
  }
  std::vector<int> order;

 private:
  enum class State { New, Open, Done };
  struct Step {
    int node;
    std::vector<int> waits;  ///< for these, not visited yet
  };

  Step step(int node) const {
    Step s{node, {}};
    for (const std::string& name : readBy(nodes_[node]))
      if (const auto at = definedBy_.find(name); at != definedBy_.end())
        s.waits.push_back(at->second);
    std::sort(s.waits.rbegin(), s.waits.rend());  // the file's first is taken first, from the end
    return s;
  }

  void visit(int first) {
    if (state(first) == State::Done) return;
    std::vector<Step> path{step(first)};
    state(first) = State::Open;
    while (!path.empty()) {
      Step& top = path.back();
      if (top.waits.empty()) {
        state(top.node) = State::Done;
        order.push_back(top.node);
        path.pop_back();
        continue;
      }
      const int next = top.waits.back();
      top.waits.pop_back();
      if (state(next) == State::Open) refuse(path, next);
      if (state(next) != State::New) continue;
      state(next) = State::Open;
      path.push_back(step(next));
    }
  }

  [[noreturn]] void refuse(const std::vector<Step>& path, int from) const {
    std::vector<std::string> names;
    const auto start =
        std::find_if(path.begin(), path.end(), [&](const Step& s) { return s.node == from; });
    for (auto s = path.end(); s != start;) {  // each reads the next
      --s;
      names.push_back(fmt::format("'{}'", nodeName(nodes_[s->node], s->node)));
    }
    if (names.size() == 1) userError("node {} reads its own result, expected no cycle", names[0]);
    constexpr size_t kMostNames = 8;
    const size_t more = names.size() > kMostNames ? names.size() - kMostNames : 0;
    names.resize(names.size() - more);
    userError("nodes {}{} read each other's results, expected no cycle", fmt::join(names, ", "),
              more ? fmt::format(" and {} more", more) : "");
  }

  State& state(int node) { return state_[static_cast<size_t>(node)]; }

  const NodeList& nodes_;
  std::vector<State> state_;
  std::unordered_map<std::string, int> definedBy_;
};

void orderNodes(onnx::GraphProto&);

void orderNodes(NodeList& nodes, const Names& known) {
  for (auto& n : nodes)
    for (auto& a : *n.mutable_attribute())
      if (a.has_g()) orderNodes(*a.mutable_g());
  const std::vector<int> order = Order(nodes, known).order;
  if (std::is_sorted(order.begin(), order.end())) return;
  for (int i = 0; i < nodes.size(); i++) nodes[i].set_name(nodeName(nodes[i], i));
  NodeList moved;
  moved.Reserve(nodes.size());
  for (const int i : order) moved.Add()->Swap(&nodes[i]);
  nodes.Swap(&moved);
}

void orderNodes(onnx::GraphProto& g) {
  Names known;
  for (const auto& i : g.input()) known.insert(i.name());
  for (const auto& t : g.initializer()) known.insert(t.name());
  orderNodes(*g.mutable_node(), known);
}

}  // namespace

void orderNodes(onnx::ModelProto& model) {
  orderNodes(*model.mutable_graph());
  for (auto& f : *model.mutable_functions())
    orderNodes(*f.mutable_node(), {f.input().begin(), f.input().end()});
}

}  // namespace tektite
