#pragma once
#include "lower/team_points.h"
#include "schedule/team.h"

namespace tektite {

/// A product whose operands go through shared memory in panels, the next one on its way while one is multiplied. How results are held
/// and multiplied is the derived class's.
class TeamPanels : protected TeamPoints {
 public:
  TeamPanels(const Stage&, const TeamStage&, int threads, const KernelBuffers&,
             const Ranges& tiles);
  virtual ~TeamPanels() = default;
  Block run();

 protected:
  /// An operand, and what stands for it in the kernel: its panels, the variable that counts its blocks, this block's first element.
  struct Side {
    const TeamOperand& of;
    std::string panel, block;
    Expr first = 0;
  };

  /// Registers for the results, allocated and cleared.
  virtual void begin(Block& out) = 0;
  /// A nest of the team: `bring`, and then the panel is multiplied.
  virtual Stmt step(const std::function<void(Block&)>& bring, const Expr& panel) = 0;
  /// The stores that follow from the results.
  virtual void results(Block& out) = 0;

  /// An element of the panel that is multiplied now, or of another.
  Ref inPanel(const Side&, const Expr& panel, const Expr& deep, const Expr& across) const;
  static Block unrolled(const std::string& v, int64_t n, Block body);

  const TeamStage& schedule_;
  const TeamProduct& product_;
  const Accumulator& accumulator_;
  const int64_t panels_;
  Side rows_, columns_;

 private:
  void batches(size_t k, Block& out);
  void blocks(Block& out, Side&, const Fill& inside);
  void block(Block& out);
  void arrived(Block& out) const;
  void allocate(Block& out, const Side&) const;
  void bring(Block& out, const Side&, const Expr& panel);
  Stmt loadAndStore(const Side&, Ref to, const std::vector<Expr>& conditions) const;
  Stmt copy(const Side&, Ref to) const;
};

}  // namespace tektite
