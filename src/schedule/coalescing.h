#pragma once
#include "schedule/team.h"

namespace tektite {

/// How neighbouring threads of a team reach main memory: of each load and store of a kernel's stages, by its index map.
struct AccessCounts {
  int wide = 0;      ///< neighbours side by side, each with several elements at once
  int together = 0;  ///< neighbours side by side
  int same = 0;      ///< all of them one element
  int apart = 0;     ///< each a place of its own, or where data says
  int all() const { return wide + together + same + apart; }
  AccessCounts& operator+=(const AccessCounts&);
};
/// `plan`: prepared, as the schedule was chosen for it.
AccessCounts countAccesses(const GroupPlan&, const TeamSchedule&);

/// What is known of a kernel that teams run, before a compiler sees it.
struct TeamFacts {
  AccessCounts accesses;
  int registers = 0;  ///< as estimated
};
/// `values`: that the widest stage holds at once.
TeamFacts factsOf(const GroupPlan&, const TeamSchedule&, int values);

/// Registers that a thread is thought to need, where the widest stage holds so many values at once: each as often as a thread has elements,
/// a product's results and operands, addresses and counters.
int estimateRegisters(const TeamSchedule&, int values);

}  // namespace tektite
