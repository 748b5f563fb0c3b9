#include "fusion/ledger.h"

namespace tektite {

std::string_view name(Verdict v) {
  switch (v) {
    case Verdict::Inlined: return "inlined";
    case Verdict::Placed: return "placed";
    case Verdict::Merged: return "merged";
    case Verdict::Unfused: return "unfused";
  }
  return "";
}

std::string_view name(Reason r) {
  switch (r) {
    case Reason::None: return "none";
    case Reason::Cycle: return "cycle";
    case Reason::ControlFlow: return "control flow";
    case Reason::OpaqueCall: return "opaque call";
    case Reason::UnknownExtent: return "unknown extent";
    case Reason::NeedsWholeProducer: return "needs whole producer";
    case Reason::TooBigForLevel: return "too big for level";
    case Reason::Recompute: return "recompute";
    case Reason::Registers: return "registers";
    case Reason::Parallelism: return "parallelism";
    case Reason::CodeSize: return "code size";
    case Reason::TargetLacks: return "target lacks";
    case Reason::NoGain: return "no gain";
    case Reason::NumericsMode: return "numerics mode";
    case Reason::UserFence: return "user fence";
  }
  return "";
}

std::string toText(const Refusal& r) {
  switch (r.reason) {
    case Reason::None: return "nothing stands against it";
    case Reason::Cycle:
      return fmt::format("cycle: a path between them leaves and comes back through {}", r.what);
    case Reason::ControlFlow: return fmt::format("control flow: {} runs graphs of its own", r.what);
    case Reason::OpaqueCall: return fmt::format("opaque call: {} is a host routine", r.what);
    case Reason::UnknownExtent:
      return fmt::format("unknown extent: {} is known only when it runs", r.what);
    case Reason::NeedsWholeProducer:
      return fmt::format(
          "needs whole producer: each tile needs {:.3g} of its bytes, a tile holds {:.3g}",
          r.needed, r.available);
    case Reason::TooBigForLevel:
      return fmt::format("too big for level {}: {:.0f} bytes needed, {:.0f} available", r.what,
                         r.needed, r.available);
    case Reason::Recompute:
      return fmt::format("recompute: {:.3g} times the work, budget {:.3g}", r.needed, r.available);
    case Reason::Registers:
      return fmt::format("registers: {:.0f} needed, {:.0f} available", r.needed, r.available);
    case Reason::Parallelism:
      return fmt::format("parallelism: {:.0f} tiles left, {:.0f} cores to feed", r.needed,
                         r.available);
    case Reason::CodeSize:
      return fmt::format("code size: {:.0f} operations, budget {:.0f}", r.needed, r.available);
    case Reason::TargetLacks: return fmt::format("target lacks {}", r.what);
    case Reason::NoGain:
      return fmt::format("no gain: {:.3f} us apart, {}{:.3f} us together", r.needed * 1e6, r.what,
                         r.available * 1e6);
    case Reason::NumericsMode: return fmt::format("numerics mode: {} is needed", r.what);
    case Reason::UserFence: return "user fence: kept apart on request";
  }
  return "";
}

std::vector<Edge> Ledger::between(const std::string& a, const std::string& b) const {
  std::vector<Edge> out;
  for (const auto* list : {&edges, &pairs})
    for (const Edge& e : *list)
      if ((e.fromName == a && e.toName == b) || (e.fromName == b && e.toName == a))
        out.push_back(e);
  return out;
}

}  // namespace tektite
