#pragma once
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/array.h"

namespace tektite {

/// The named dims that inputs of these shapes mean, and those `given` beside them. UserError: dtypes or extents that don't fit the
/// graph's inputs, two values for one name.
std::map<std::string, int64_t> dimsOf(const Graph&, const std::vector<DType>& types,
                                      const std::vector<std::vector<int64_t>>& shapes,
                                      const std::map<std::string, int64_t>& given = {});
std::map<std::string, int64_t> dimsOf(const Graph&, const std::vector<Array>& inputs,
                                      const std::map<std::string, int64_t>& given = {});

}  // namespace tektite
