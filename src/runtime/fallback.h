#pragma once
#include "runtime/compile.h"

namespace tektite {

/// A node (of this number) that can't be a kernel. UserError where the options don't allow the graph interpreter; else told to who asked.
Fallback fallBack(const CompileOptions&, const Node&, size_t number);
/// UserError that names file and node.
[[noreturn]] void refuse(const CompileOptions&, const Node&, size_t number,
                         const std::string& what);

}  // namespace tektite
