#pragma once
#include <cstdint>

namespace tektite {

/// What a rewrite may do to the bits of a result (design 2), weakest liberty first.
enum class Numerics : uint8_t { Strict, Ordered, Fast };

}  // namespace tektite
