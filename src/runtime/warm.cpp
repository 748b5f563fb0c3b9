#include "runtime/warm.h"

#include <algorithm>
#include <set>

#include "ir/cache_model.h"

namespace tektite {
namespace {

constexpr int64_t kLine = 64;

/// Places of slots that never overlap, but where they share memory.
class Places {
 public:
  uint64_t of(const Slot& s) {
    switch (s.kind) {
      case Slot::Arena:
      case Slot::Packed:
      case Slot::Zeroed: return (uint64_t{s.kind} + 1) << 40 | static_cast<uint64_t>(s.offset);
      case Slot::Input:
      case Slot::Output:
      case Slot::Constant: break;
    }
    const auto [at, isNew] = known_.emplace(std::tuple(s.kind, s.index, s.data), next_);
    if (isNew) next_ += static_cast<uint64_t>((s.bytes + kLine - 1) / kLine * kLine);
    return at->second;
  }

 private:
  std::map<std::tuple<Slot::Kind, int, const void*>, uint64_t> known_;
  uint64_t next_ = uint64_t{1} << 60;
};

/// Of a step, which slots it reads, each once; it writes the others.
std::set<int> readBy(const Program& p, const Step& step) {
  std::set<int> out;
  if (step.node < 0) return {step.slots[0]};
  for (const Value& v : p.graph.nodes[static_cast<size_t>(step.node)].operands)
    if (const auto at = p.slotOf.find(v); at != p.slotOf.end()) out.insert(at->second);
  for (const int s : step.slots)
    if (p.slots[s].kind == Slot::Constant || p.slots[s].kind == Slot::Packed) out.insert(s);
  return out;
}

}  // namespace

int64_t bytesReadWarm(const Program& p, int64_t cacheBytes) {
  CacheModel cache(cacheBytes);
  Places places;
  int64_t again = 0;
  for (const Step& step : p.steps) {
    const std::set<int> reads = readBy(p, step), all(step.slots.begin(), step.slots.end());
    int64_t once = 0;
    for (const int s : reads) once += p.slots[s].bytes;
    const int64_t planned = step.kernel < 0 ? once : p.kernels[step.kernel].cost.bytesRead;
    again += std::max<int64_t>(0, planned - once);
    const double share = std::min(1.0, static_cast<double>(planned) / std::max(1.0, 1.0 * once));
    const auto lines = [&](const Slot& s, double part, auto touch) {
      const auto end = static_cast<int64_t>(part * static_cast<double>(s.bytes));
      const uint64_t at = places.of(s);
      for (int64_t b = 0; b < end; b += kLine) touch(at + static_cast<uint64_t>(b));
    };
    for (const int s : all)
      if (reads.count(s)) lines(p.slots[s], share, [&](uint64_t a) { cache.read(a, kLine); });
    for (const int s : all)
      if (!reads.count(s)) lines(p.slots[s], 1, [&](uint64_t a) { cache.write(a, kLine); });
  }
  return cache.bytesRead() + again;
}

}  // namespace tektite
