#pragma once
#include <string_view>

namespace tektite {

/// A hash of the sources of this library: what they made is another's where it differs. (The build makes the definition.)
std::string_view sourceVersion();

}  // namespace tektite
