#pragma once
#include <map>
#include <string>

#include "fusion/cost.h"

namespace tektite {

/// Main-memory bytes of a kernel's buffers that lie outside of it, as the last on-chip level leaves them (design 7): a fully associative cache
/// of 64-byte lines, least recently used out first, cold at the start. A nest is taken to touch each line once, whatever its order of loops.
class Traffic {
 public:
  /// One tile list of the kernel.
  void add(const GroupShape&, const StageSet&, const Tiled&, const Target&);
  /// Bytes read and written: what several lists touch comes once where the last level holds all.
  void settle(Cost&, const Target&) const;

 private:
  struct Moved {
    bool written = false;
    double footprint = 0, bytes = 0, whole = 0;
  };
  void addPartials(const Stage&, double tiles);
  std::map<std::string, Moved> buffers_;
};

}  // namespace tektite
