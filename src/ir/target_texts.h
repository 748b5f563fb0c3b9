#pragma once
#include <span>
#include <string_view>
#include <utility>

namespace tektite {

/// Presets that are written as a target's file is: their names and texts.
std::span<const std::pair<std::string_view, std::string_view>> targetTexts();

}  // namespace tektite
