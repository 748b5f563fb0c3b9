#pragma once
#include <span>

#include "ir/graph_eval.h"

namespace tektite {

/// Scalar expressions compiled for the interpreter: registers are blocks of elements, an instruction works on a whole block.
/// Doubles for floats, int64 for the rest; floats are rounded at casts only.
class ScalarProgram {
 public:
  static constexpr int kBlock = 256;
  union alignas(64) Block {
    double real[kBlock];
    int64_t integer[kBlock];
  };
  /// `variables` may occur in the expressions; loads read the tensors given to Machine, `$2` the third.
  ScalarProgram(const std::vector<Expr>& results, const std::vector<std::string>& variables);
  bool uses(int variable) const { return slots_[static_cast<size_t>(variable)] >= 0; }
  int length() const { return static_cast<int>(code_.size()); }

  /// Registers of one thread.
  class Machine {
   public:
    Machine(const ScalarProgram&, std::span<const Tensor* const> tensors);
    Block& variable(int i) {
      return registers_[static_cast<size_t>(program_.slots_[static_cast<size_t>(i)])];
    }  ///< only where it uses it
    const Block& result(int i) const {
      return registers_[static_cast<size_t>(program_.results_[static_cast<size_t>(i)])];
    }
    void run(int elements);

   private:
    const ScalarProgram& program_;
    std::span<const Tensor* const> tensors_;
    std::vector<Block> registers_;
  };

 private:
  struct Instruction {
    enum Kind : uint8_t { Real, Integer, Convert, Load } kind;
    Op op;
    DType from, to;  // of the arguments, of the result
    int result;
    std::vector<int> args;
    int tensor = -1;
  };
  int compile(const Expr&);
  int constant(const Expr&);

  std::vector<Instruction> code_;
  std::vector<std::pair<int, Expr>> constants_;
  std::vector<std::string> variables_;
  std::vector<int> slots_, results_;
  std::unordered_map<Hash, int> done_;
  int registers_ = 0;

  static void run(const Instruction&, std::vector<Block>&, std::span<const Tensor* const>, int n);
};

/// f(first, last) over parts of [0, n), on as many threads where `work` (scalar steps in all) is worth it.
void parallelParts(int64_t n, double work, int threads,
                   const std::function<void(int64_t first, int64_t last)>& f);

}  // namespace tektite
