#pragma once
#include <string>

#include "runtime/report.h"

namespace tektite {

/// The report as one page that needs nothing else: kernels as boxes in the order of their data, each with its nodes, plan, loops, code,
/// bytes and cost; every edge with its verdict; a bar a kernel of its predicted time, with the least that the target's memory and
/// arithmetic allow.
std::string toHtml(const Program&, const Report&, const Target&);

}  // namespace tektite
