#pragma once
#include <string>

#include "runtime/team.h"

namespace tektite {

// What this machine does at best, measured now, by all threads of the team together.

struct Bandwidths {
  double readBytes = 0;   ///< streaming reads from main memory, bytes per second
  double triadBytes = 0;  ///< a = b + s * c with stores past the caches, bytes per second
};
Bandwidths measureBandwidths(Team& team, double seconds);

/// f32 multiply-adds from registers, two operations each, per second.
double measureFma(Team& team, double seconds);
/// The same by vectors of at most so many bytes, over about a third of a millisecond from now. Clocks go up and down with what ran just before:
/// a share of the peak holds against bursts that are interleaved with what is measured.
double fmaBurst(Team& team, int64_t vectorBytes);

}  // namespace tektite
