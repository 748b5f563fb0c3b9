#pragma once
#include <memory>
#include <string>
#include <vector>

#include "emit/artifact.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite {

struct Supports {
  bool yes = true;
  std::string why;  ///< where not
};

}  // namespace tektite
