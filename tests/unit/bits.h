#pragma once
#include <cmath>
#include <cstring>

#include "../evaluators.h"
#include "runtime/team.h"

namespace tektite {

using Results = std::vector<Array>;
inline Results runOn(const std::shared_ptr<const Program>& program,
                     const std::vector<Tensor>& inputs, Team* team = nullptr) {
  std::vector<Array> in, out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Tensor& t : inputs) {
    in.emplace_back(t.dtype, t.shape);
    t.toRaw(in.back().data());
  }
  for (const TensorType& t : program->outputs) out.emplace_back(t.dtype, t.extents());
  for (const Array& a : in) from.push_back(a.data());
  for (Array& a : out) to.push_back(a.data());
  Session(program, team).run(from.data(), to.data());
  return out;
}

/// The first element whose bits differ, as text; NaNs are alike. "" where there is none.
inline std::string difference(const Results& a, const Results& b) {
  for (size_t o = 0; o < a.size(); o++) {
    const int size = bytes(a[o].type);
    for (int64_t i = 0; i < a[o].elements(); i++) {
      const char *x = static_cast<const char*>(a[o].data()) + i * size,
                 *y = static_cast<const char*>(b[o].data()) + i * size;
      if (std::memcmp(x, y, static_cast<size_t>(size)) == 0) continue;
      if (!isFloat(a[o].type)) return fmt::format("output {} at {}", o, i);
      const double p = loadFloat(a[o].type, a[o].data(), i),
                   q = loadFloat(b[o].type, b[o].data(), i);
      if (!std::isnan(p) || !std::isnan(q))
        return fmt::format("output {} at {}: {:.9g}, {:.9g}", o, i, p, q);
    }
  }
  return "";
}

}  // namespace tektite
