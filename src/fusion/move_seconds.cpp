#include <algorithm>

#include "fusion/cost.h"

namespace tektite {

const Level& scratchLevel(const Target& t) {
  const Level* l2 = t.level(t.hasExplicitMemory() ? t.scratch : "l2");
  return l2 ? *l2 : t.last();
}

double moveSeconds(double bytes, double tensorBytes, double cores, const Target& t) {
  const Level* home = &t.levels.back();
  for (size_t i = std::min<size_t>(2, t.levels.size() - 1);
       i + 1 < t.levels.size() && !t.hasExplicitMemory(); i++) {  // L1 has forgotten it by then
    const double held = static_cast<double>(t.levels[i].bytes) *
                        (t.levels[i].sharedBytesPerSecond > 0 ? 1 : t.cores);
    if (tensorBytes * 2 <= held) {
      home = &t.levels[i];
      break;
    }
  }
  double rate = home->bytesPerSecond * cores;  // 0: a core alone can take all that there is
  if (t.hasExplicitMemory()) rate = t.path("main", t.scratch)->bytesPerSecond * cores;
  if (home->sharedBytesPerSecond > 0)
    rate = rate > 0 ? std::min(rate, home->sharedBytesPerSecond) : home->sharedBytesPerSecond;
  return rate > 0 ? bytes / rate : 0;
}

}  // namespace tektite
