#pragma once
#include <string>

#include "runtime/team.h"

namespace tektite {

/// What this machine does at best, measured now, by all threads of the team together.
struct Limits {
  double fmaFlops = 0;    ///< f32 multiply-adds from registers, two operations each, per second
  double readBytes = 0;   ///< streaming reads from main memory, bytes per second
  double triadBytes = 0;  ///< a = b + s * c with stores past the caches, bytes per second
};
Limits measureLimits(Team& team, double seconds);

}  // namespace tektite
