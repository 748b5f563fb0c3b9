#include "fusion/narrow_crossings.h"

#include <algorithm>
#include <limits>

namespace tektite {
namespace {

double secondsOf(const Clusters& clusters, Trials& trials, const std::set<int>& some) {
  double all = 0;
  for (int c : some) {
    const Trial& t = trials.of(clusters, clusters.list[c].nodes);
    if (t.refusal.reason != Reason::None) return std::numeric_limits<double>::infinity();
    all += t.seconds;
  }
  return all;
}

}  // namespace

void narrowCrossings(Clusters& clusters, Trials& trials) {
  for (int n = 0; n < static_cast<int>(clusters.of.size()); n++) {
    if (!clusters.mayRepeat(n)) continue;
    std::set<int> touched = clusters.readersOf(n);
    touched.insert(clusters.of[n]);
    if (std::ranges::any_of(touched, [&](int c) { return clusters.list[c].host; })) continue;
    const double before = secondsOf(clusters, trials, touched);
    const Clusters::Repetition made = clusters.repeat(n);
    const double after = secondsOf(clusters, trials, touched);
    if (after >= before) clusters.undo(made);
  }
}

}  // namespace tektite
