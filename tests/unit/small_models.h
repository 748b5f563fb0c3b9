#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ops/op.h"

namespace tektite {

/// Models of a few nodes at sizes that an interpreter can run, one for each kind of kernel. Every node has an origin of its own.
struct NamedGraph {
  std::string name;
  Graph graph;
};

class SmallModels {
 public:
  std::vector<NamedGraph> run() {
    softmax(0, {33, 70}), softmax(1, {33, 700});
    norm("LayerNormalization", {9, 130}, {130});
    norm("InstanceNormalization", {2, 5, 11, 13}, {5});
    reductions();
    perceptron();
    attention();
    convolutions();
    recurrence();
    halves();
    return std::move(out_);
  }

 private:
  Builder b_;
  std::vector<NamedGraph> out_;

  Value in(const std::string& name, const std::vector<int64_t>& shape, DType t = DType::F32) {
    return b_.input(name, {t, {shape.begin(), shape.end()}});
  }
  Value op(const std::string& name, std::vector<Value> args,
           std::map<std::string, int64_t> numbers = {}) {
    OpCall c{name, std::move(args)};
    for (const auto& [key, n] : numbers) c.attributes[key] = n;
    return buildOp(b_, c)[0];
  }
  void done(const std::string& name, std::vector<Value> outputs) {
    b_.graph.outputs = std::move(outputs);
    for (size_t i = 0; i < b_.graph.nodes.size(); i++)  // a kernel for each node, unfused
      b_.graph.nodes[i].origin = "n" + std::to_string(i);
    out_.push_back({name, std::move(b_.graph)});
    b_ = Builder();
  }

  void softmax(int64_t axis, const std::vector<int64_t>& shape) {
    const Value x = in("x", shape);
    done(fmt::format("softmax over {}", axis), {op("Softmax", {x}, {{"axis", axis}})});
  }
  void norm(const std::string& name, const std::vector<int64_t>& shape,
            const std::vector<int64_t>& scale) {
    const Value x = in("x", shape), s = in("s", scale), t = in("t", scale);
    done(name, {op(name, {x, s, t})});
  }
  void reductions() {
    const Value x = in("x", {7, 40, 9, 33});
    std::vector<Value> all;
    for (const std::vector<int>& axes :
         {std::vector{3}, {0}, {1, 2}, {0, 2}, {0, 3}, {0, 1, 2, 3}}) {
      all.push_back(b_.reduce("sum", b_.map("a * a + 0.1", {x}), axes));
      all.push_back(b_.reduce("max", x, axes));
    }
    done("sums over all kinds of axes", all);
    const Value y = in("y", {20000});
    done("a long sum of squares",
         {b_.map("sqrt(a)", {b_.reduce("sum", b_.map("a * a", {y}), {0})})});
    const Value z = in("z", {5, 17, 12});
    done("largest labels", {op("ArgMax", {b_.map("tanh(a)", {z})}, {{"axis", 1}})});
    const Value t = in("t", {12, 9, 31});
    done("a sum over a transposed value",
         {b_.reduce("sum", b_.map("exp(a)", {b_.transpose(t, {2, 0, 1})}), {1, 2})});
  }
  void perceptron() {
    const Value x = in("x", {37, 50}), w = in("w", {50, 70}), v = in("v", {70, 19}),
                c = in("c", {19});
    const Value h = op("Gelu", {op("MatMul", {x, w})});
    done("perceptron", {op("Softmax", {op("Add", {op("MatMul", {h, v}), c})}, {{"axis", 1}})});
  }
  void attention() {
    const Value q = in("q", {2, 30, 16}), k = in("k", {2, 41, 16}), v = in("v", {2, 41, 16});
    const Value s = b_.map("a * 0.25", {b_.contract("hqd,hkd->hqk", q, k)});
    done("attention", {op("MatMul", {op("Softmax", {s}, {{"axis", 2}}), v})});
  }
  void convolutions() {
    const Value x = in("x", {1, 6, 15, 14}), w = in("w", {8, 6, 3, 3}), d = in("d", {8, 1, 3, 3}),
                p = in("p", {5, 8, 1, 1});
    const auto conv = [&](Value a, Value weights, int64_t groups, int64_t pad) {
      OpCall c{"Conv", {a, weights}};
      c.attributes["group"] = groups;
      c.attributes["pads"] = std::vector<int64_t>{pad, pad, pad, pad};
      return b_.map("max(a, 0)", {buildOp(b_, c)[0]});
    };
    done("convolutions", {conv(conv(conv(x, w, 1, 1), d, 8, 1), p, 1, 0)});
  }
  void recurrence() {
    const Value x = in("x", {6, 2, 8}), w = in("w", {1, 40, 8}), r = in("r", {1, 40, 10});
    done("LSTM", {op("LSTM", {x, w, r}, {{"hidden_size", 10}})});
  }
  void halves() {
    const Value x = in("x", {21, 34}, DType::F16), y = in("y", {34, 18}, DType::F16);
    done("halves", {op("Softmax", {op("MatMul", {b_.map("a * a + a", {x}), y})}, {{"axis", 1}})});
  }
};

inline const std::vector<NamedGraph>& smallModels() {
  static const std::vector<NamedGraph> all = SmallModels().run();
  return all;
}
}  // namespace tektite
