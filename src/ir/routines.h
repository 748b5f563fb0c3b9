#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tektite {

/// An operand or a result of a host routine: row-major, of a static shape.
struct RoutineBuffer {
  DType type;
  std::vector<int64_t> shape;
  void* data;  ///< of results: to be written; operands stay as they are
};

/// The closed set of what calls may name (docs/graph.md says what each does). Results whose number only data decides are as large as
/// they can get, with the count beside them; what lies behind the count is zero.
bool isRoutine(std::string_view name);
/// Runs one. UserError: operands that it isn't for.
void runRoutine(const Call&, const std::vector<RoutineBuffer>& operands,
                const std::vector<RoutineBuffer>& results);

}  // namespace tektite
