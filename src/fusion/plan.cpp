#include "fusion/plan.h"

#include <algorithm>

#include "ir/share.h"
#include "support/check.h"

namespace tektite {
namespace {

std::string_view kindName(PlanBuffer::Kind k) {
  switch (k) {
    case PlanBuffer::Input: return "in";
    case PlanBuffer::Constant: return "const";
    case PlanBuffer::Output: return "out";
    case PlanBuffer::Scratch: return "scratch";
  }
  return "";
}
std::string toText(const Region& r, int64_t extent) {
  if (r.size >= extent && isConstant(r.base, 0)) return std::to_string(extent);
  return fmt::format("{} +{} of {}", tektite::toText(r.base), r.size, extent);
}
std::string toText(const StageStore& s) {
  std::string index;
  for (const Expr& e : s.index) index += (index.empty() ? "" : ", ") + tektite::toText(e);
  const std::string sign = s.combine.empty() ? "=" : s.combine + "=";
  const std::string guard = s.guard ? " if " + tektite::toText(s.guard) : "";
  return fmt::format("{}[{}] {} {}{}\n", s.buffer, index, sign, tektite::toText(s.value), guard);
}
/// With names for what is used several times, where it would be long.
Stage withNames(const Stage& s, std::string& lets) {
  std::vector<Expr> roots;
  const auto all = [&](Stage& stage, const auto& each) {
    for (auto* stores : {&stage.inner, &stage.outer})
      for (StageStore& store : *stores) each(store.value);
    for (Accumulator& a : stage.accumulators)
      for (Expr& e : a.values) each(e);
  };
  Stage out = s;
  all(out, [&](Expr& e) { roots.push_back(e); });
  for (const auto& [name, value] : nameShared(roots, "let"))
    lets += fmt::format("      {} = {}\n", name, tektite::toText(value));
  size_t next = 0;
  all(out, [&](Expr& e) { e = roots[next++]; });
  return out;
}
std::string toText(const Stage& whole) {
  std::string lets;
  const Stage s = withNames(whole, lets);
  std::string out =
      fmt::format("    stage{}{} at depth {}: {}\n", s.contraction ? " contraction" : "",
                  s.after ? " after" : "", s.depth, s.comment);
  for (const StageAxis& a : s.axes)
    out += fmt::format("      {} {} in {}\n", a.reduce ? "reduce" : "axis", a.var,
                       toText(a.region, a.extent));
  out += lets;
  for (const StageStore& store : s.inner) out += "      inner " + toText(store);
  for (const Accumulator& acc : s.accumulators) {
    out += "      " + acc.combine.name + " ";
    for (size_t i = 0; i < acc.names.size(); i++)
      out += fmt::format("{}{} <- {}", i ? "; " : "", acc.names[i], tektite::toText(acc.values[i]));
    out += "\n";
  }
  for (const StageStore& store : s.outer) out += "      outer " + toText(store);
  return out;
}

std::string toText(const ScanPort& p) {
  return p.at ? fmt::format("{}[{}]", p.buffer, tektite::toText(p.at)) : p.buffer;
}
std::string toText(const ScanPart& part) {
  std::string in, out;
  for (const ScanPort& p : part.inputs) in += (in.empty() ? "" : ", ") + toText(p);
  for (const auto& places : part.outputs)
    for (const ScanPort& p : places) out += (out.empty() ? "" : ", ") + toText(p);
  const std::string late = part.delay ? fmt::format("{} late ", part.delay) : "";
  return fmt::format("  {}({}) -> ({}) ", late, in, out) + tektite::toText(*part.plan);
}
std::string toText(const ScanPlan& scan) {
  std::string out;
  for (const ScanPart& part : scan.first) out += toText(part);
  out +=
      fmt::format("  for each of {} steps{}\n", scan.steps, scan.carried ? ", inside a tile" : "");
  for (const ScanPart& part : scan.each) out += toText(part);
  out += "  at the end\n";
  for (const ScanPart& part : scan.last) out += toText(part);
  return out;
}

}  // namespace

bool keepsOrder(const GroupPlan& plan, const Stage& stage) {
  return plan.canonical && std::ranges::any_of(stage.accumulators, [](const Accumulator& a) {
           return std::ranges::any_of(a.combine.types, [](DType t) { return isFloat(t); });
         });
}

const PlanBuffer& GroupPlan::buffer(const std::string& name) const {
  const auto it = std::ranges::find(buffers, name, &PlanBuffer::name);
  TEKTITE_CHECK(it != buffers.end(), "no buffer {}", name);
  return *it;
}

std::string toText(const GroupPlan& p) {
  std::string out = "plan {\n";
  for (const PlanBuffer& b : p.buffers) {
    out += fmt::format("  {} {}: {}", kindName(b.kind), b.name, toText(b.type));
    if (!b.order.empty()) out += fmt::format(" order [{}]", fmt::join(b.order, " "));
    if (b.feedsMoreStages) out += " read back";
    if (b.kind == PlanBuffer::Scratch && !p.scan) {
      out += fmt::format(" in {} at depth {} [", b.space, b.depth);
      for (size_t i = 0; i < b.region.size(); i++)
        out += (i ? ", " : "") + toText(b.region[i], b.type.extent(static_cast<int>(i)));
      out += "]";
    }
    out += "\n";
  }
  for (const TileList& list : p.lists) {
    out += "  tiles";
    for (const TileAxis& t : list.tiles)
      out += fmt::format(" {} {}/{}{}", t.var, t.extent, t.tile, t.grid ? "" : " serial");
    if (list.sync >= 0) out += fmt::format(" sync stage {}", list.sync);
    out += "\n";
    for (const Stage& s : list.stages) out += toText(s);
  }
  if (p.scan) out += toText(*p.scan);
  return out + "}\n";
}

}  // namespace tektite
