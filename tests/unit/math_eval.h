#pragma once
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"
#include "ir/type.h"

namespace tektite {

/// Evaluates an expression over f32 variables as a machine would: each f32 op rounded to f32, f64 ops to f64, i32 and i64
/// wrapping; without functions. In batches, an op at a time, so that millions of arguments take a moment.
class BatchEval {
 public:
  BatchEval(const Expr& e, std::vector<std::string> variables) : variables_(std::move(variables)) {
    visit(e, [&](const Expr& n) {
      at_[n.hash()] = nodes_.size();
      nodes_.push_back(n);
    });
  }

  /// out[i] of operands[variable][i].
  void run(std::span<const std::span<const float>> operands, std::span<float> out) {
    Cells cells(nodes_.size(), std::vector<Cell>(kBatch));
    for (size_t from = 0; from < out.size(); from += kBatch) {
      const size_t n = std::min(kBatch, out.size() - from);
      for (size_t k = 0; k < nodes_.size(); k++) step(nodes_[k], cells, k, operands, from, n);
      for (size_t i = 0; i < n; i++) out[from + i] = cells.back()[i].f;
    }
  }

 private:
  static constexpr size_t kBatch = 256;
  union Cell {
    float f;
    double d;
    int32_t i;
    int64_t l;
  };
  using Cells = std::vector<std::vector<Cell>>;

  void step(const Expr& e, Cells& cells, size_t k, std::span<const std::span<const float>> operands,
            size_t from, size_t n);

  std::vector<std::string> variables_;
  std::vector<Expr> nodes_;
  std::unordered_map<Hash, size_t> at_;
};

}  // namespace tektite
