#include "lower/scan.h"

#include <algorithm>
#include <set>

#include "ir/dot.h"
#include "lower/dma.h"
#include "lower/kernel_rewrite.h"
#include "lower/nest.h"
#include "lower/one_core.h"
#include "schedule/layout.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

/// A part's kernel before it stands in the scan's.
struct Part {
  const ScanPart* part;
  LoweredKernel lowered;
  std::map<std::string, std::vector<ScanPort>>
      places;  ///< of its parameters and shared allocations
  std::map<std::string, Buffer> declared;
};

class ScanLowering {
 public:
  ScanLowering(const GroupPlan& plan, const Target& target, bool scheduled)
      : scan_(*plan.scan), target_(target), scheduled_(scheduled) {
    out_.plan = plan;
    out_.plan.scan = nullptr;
  }

  LoweredScan run(const std::string& name) {
    for (const auto* list : {&scan_.first, &scan_.each, &scan_.last})
      for (const ScanPart& p : *list) threads_ = std::max(threads_, teamOf(p));
    for (const auto* list : {&scan_.first, &scan_.each, &scan_.last})
      for (const ScanPart& p : *list) parts_.push_back(lowerPart(p));
    for (const Part& p : parts_) findShapes(p);
    Kernel kernel;
    kernel.name = name;
    parameters(kernel);
    allocations(kernel.body);
    auto next = parts_.begin();
    sequence(kernel.body, next, scan_.first.size());
    sync(kernel.body);
    Block body;
    sequence(body, next, scan_.each.size());
    if (scan_.each.empty()) {  // kernels one after the other
    } else if (scan_.carried) {
      for (Stmt& s : body) kernel.body.push_back(insideTile(s));
      sync(kernel.body);
    } else {
      sync(body);
      kernel.body.push_back(steps(std::move(body)));
    }
    sequence(kernel.body, next, scan_.last.size());
    out_.kernel.module.kernels.push_back(std::move(kernel));
    return std::move(out_);
  }

 private:
  const ScanPlan& scan_;
  const Target& target_;
  const bool scheduled_;
  int threads_ = 0;  ///< of a team; 0: none
  LoweredScan out_;
  std::vector<Part> parts_;
  std::map<std::string, std::vector<Buffer>>
      shapes_;  ///< how the parts declare each buffer of the scan
  std::map<std::string, std::set<std::string>> use_;  ///< since the last sync: place -> "r", "w"

  static Param::Mode modeOf(const PlanBuffer& b) {
    return b.kind == PlanBuffer::Output ? Param::Out : Param::In;
  }

  Stmt steps(Block body) const {
    return {For{kStepVariable, Expr(scan_.steps + scan_.delay), LoopMode::Serial, std::move(body)},
            ""};
  }
  /// The grid with the loop over the steps around what is inside its innermost loop.
  Stmt insideTile(const Stmt& s) const {
    const For* f = s.as<For>();
    TEKTITE_CHECK(f && f->mode == LoopMode::Parallel, "no grid around a scan's tiles");
    const For* inner = f->body.size() == 1 ? f->body[0].as<For>() : nullptr;
    Block body;
    if (inner && inner->mode == LoopMode::Parallel) {
      body.push_back(insideTile(f->body[0]));
    } else {
      Block step = f->body;
      if (threads_) step.push_back({Sync{Sync::Shared, "", 0}, ""});
      body.push_back(steps(std::move(step)));
    }
    return withBody(s, std::move(body));
  }

  // ---- the parts

  /// All tiles of a kernel are run by teams of one size.
  int teamOf(const ScanPart& p) const {
    return scheduled_ && target_.kind == "gpu"
               ? chooseSchedule(prepare(*p.plan, target_), target_).team.threads
               : 0;
  }
  Part lowerPart(const ScanPart& p) {
    const std::string prefix = fmt::format("p{}_", parts_.size());
    const bool dma = target_.hasExplicitMemory();
    if (p.plan->scan) {
      LoweredScan inner = ScanLowering(*p.plan, target_, scheduled_).run("part");
      std::ranges::move(inner.parts, std::back_inserter(out_.parts));
      return placed(p, inner.plan, std::move(inner.kernel), prefix);
    }
    const GroupPlan prepared = dma ? *p.plan : prepare(*p.plan, target_);
    Schedule schedule =
        scheduled_ && !dma ? chooseSchedule(prepared, target_, threads_) : naiveSchedule(prepared);
    for (auto& list :
         schedule.team.lists)  // beyond a slice lies the next: copies wouldn't end there
      for (TeamStage& s : list) s.product.rows.copied = s.product.columns.copied = 0;
    out_.parts.emplace_back(prepared, schedule);
    return placed(
        p, prepared,
        dma ? lowerExplicit(prepared, target_, "part") : lower(prepared, schedule, target_, "part"),
        prefix);
  }
  /// A lowered part with the places of its parameters, and what it declares.
  Part placed(const ScanPart& p, const GroupPlan& prepared, LoweredKernel lowered,
              const std::string& prefix) {
    const bool dma = target_.hasExplicitMemory();
    Part out{&p, std::move(lowered), {}, {}};
    for (const Combine& c : out.lowered.module.combines)
      if (!out_.kernel.module.combine(c.name)) out_.kernel.module.combines.push_back(c);
    if (dma || threads_)
      for (const IntrinDef& def : out.lowered.module.intrins)
        declareIntrin(out_.kernel.module, def);
    const Kernel& kernel = out.lowered.kernel();
    const std::vector<Value> inputs = p.body->inputs();
    const auto position = [&](const std::vector<Value>& list, const Value& v) {
      const auto at = std::ranges::find(list, v);
      TEKTITE_CHECK(at != list.end(), "a buffer of a scan's part is no port");
      return static_cast<size_t>(at - list.begin());
    };
    for (size_t i = 0; i < kernel.params.size(); i++) {
      const std::string& argument = out.lowered.arguments[i];
      const Buffer& declared = kernel.params[i].buffer;
      out.declared[declared.name] = declared;
      std::vector<ScanPort>& places = out.places[declared.name];
      const auto packed = std::ranges::find(out.lowered.packed, argument, &PackedConstant::param);
      if (packed != out.lowered.packed.end()) {
        keepConstant(p, prepared.buffer(packed->source), prefix);
        places = {{prefix + argument, {}}};
        packed->param = prefix + packed->param;
        packed->source = prefix + packed->source;
        out_.kernel.packed.push_back(*packed);
        continue;
      }
      const PlanBuffer& b = prepared.buffer(argument);
      switch (b.kind) {
        case PlanBuffer::Input: places = {p.inputs[position(inputs, b.value)]}; break;
        case PlanBuffer::Output: places = p.outputs[outputOf(p, prepared, b)]; break;
        case PlanBuffer::Constant:
          keepConstant(p, b, prefix);
          places = {{prefix + b.name, {}}};
          break;
        case PlanBuffer::Scratch: TEKTITE_CHECK(false, "scratch {} is a parameter", b.name);
      }
    }
    for (const Stmt& s : kernel.body)
      if (const Alloc* a = s.as<Alloc>()) {  // partial results
        out.declared[a->buffer.name] = a->buffer;
        out.places[a->buffer.name] = {{prefix + a->buffer.name, {}}};
      }
    return out;
  }
  /// Outputs stand in the body's order.
  static size_t outputOf(const ScanPart& p, const GroupPlan& plan, const PlanBuffer& b) {
    size_t k = 0;
    for (const PlanBuffer& other : plan.buffers) {
      if (other.kind != PlanBuffer::Output) continue;
      if (other.name == b.name) break;
      k++;
    }
    TEKTITE_CHECK(k < p.outputs.size(), "output {} of a scan's part has no place", b.name);
    return k;
  }
  void keepConstant(const ScanPart& p, PlanBuffer b, const std::string& prefix) {
    b.name = prefix + b.name;
    if (!b.constant) b.constant = std::make_shared<const Node>(p.body->node(b.value));
    if (std::ranges::find(out_.plan.buffers, b.name, &PlanBuffer::name) == out_.plan.buffers.end())
      out_.plan.buffers.push_back(std::move(b));
  }

  // ---- buffers of the whole

  void findShapes(const Part& p) {
    for (const auto& [name, places] : p.places)
      for (const ScanPort& place : places) {
        Buffer seen = p.declared.at(name);
        if (place.at) {
          TEKTITE_CHECK(seen.strides.empty(), "slices of {} in another order", place.buffer);
          seen.shape.insert(seen.shape.begin(), out_.plan.buffer(place.buffer).type.shape[0]);
        }
        shapes_[place.buffer].push_back(std::move(seen));
      }
  }
  /// Parts may see a buffer with axes merged: then it is flat for all.
  bool isFlat(const std::string& buffer) const {
    const std::vector<Buffer>& all = shapes_.at(buffer);
    return std::ranges::any_of(all, [&](const Buffer& b) {
      return !(b.shape == all[0].shape) || !(b.strides == all[0].strides);
    });
  }
  Buffer declare(const std::string& name) const {
    Buffer b = shapes_.at(name)[0];
    b.name = name;
    b.align = 0;
    for (const Buffer& other : shapes_.at(name)) b.align = std::max(b.align, other.align);
    if (isFlat(name)) {
      Expr n = 1;
      for (const Expr& e : b.shape) n = n * e;
      b.shape = {n};
      b.strides.clear();
    }
    return b;
  }
  void parameters(Kernel& kernel) {
    for (const PlanBuffer& b : out_.plan.buffers) {
      if (b.kind == PlanBuffer::Scratch || !shapes_.count(b.name)) continue;
      kernel.params.push_back({modeOf(b), declare(b.name)});
      out_.kernel.arguments.push_back(b.name);
    }
    for (const PackedConstant& p : out_.kernel.packed) {
      kernel.params.push_back({Param::In, declare(p.param)});
      out_.kernel.arguments.push_back(p.param);
    }
  }
  void allocations(Block& out) {
    for (const PlanBuffer& b : out_.plan.buffers)
      if (b.kind == PlanBuffer::Scratch && shapes_.count(b.name)) {
        Buffer made = declare(b.name);
        made.space = "main";
        out.push_back({Alloc{std::move(made)}, ""});
      }
    for (const Part& p : parts_)
      for (const auto& [name, places] : p.places)
        if (p.declared.at(name).space == "main" && isShared(p, name))
          out.push_back({Alloc{declare(places[0].buffer)}, ""});
  }
  static bool isShared(const Part& p, const std::string& name) {
    return std::ranges::any_of(p.lowered.kernel().body, [&](const Stmt& s) {
      const Alloc* a = s.as<Alloc>();
      return a && a->buffer.name == name;
    });
  }

  // ---- statements

  std::vector<Expr> indexAt(const ScanPort& place, const Buffer& declared,
                            const std::vector<Expr>& index) const {
    std::vector<Expr> out;
    if (!isFlat(place.buffer)) {
      if (place.at) out.push_back(place.at);
      out.insert(out.end(), index.begin(), index.end());
      return out;
    }
    Expr offset = 0, step = 1;
    for (size_t d = index.size(); d-- > 0;) {
      offset = offset + index[d] * (declared.strides.empty() ? step : declared.strides[d]);
      step = step * declared.shape[d];
    }
    out.push_back(place.at ? place.at * step + offset : offset);
    return out;
  }
  Expr moved(const Part& p, const Expr& e) const {
    return rewrite(e, [&](const Expr& x) -> Expr {
      const Load* l = x.as<Load>();
      const auto it = l ? p.places.find(l->buffer) : p.places.end();
      if (it == p.places.end()) return {};
      const ScanPort& place = it->second[0];
      return load(place.buffer, x.type(), indexAt(place, p.declared.at(l->buffer), l->index));
    });
  }
  /// A value with several places is stored to all at once: computed once, although a place may be what it reads. What joins a place
  /// (a scatter) joins each by itself.
  std::vector<Store> moved(const Part& p, const Store& s) const {
    Store out = s;
    out.stream = false;  // the next step reads it
    if (const auto it = p.places.find(s.targets[0].buffer);
        it != p.places.end() && s.targets.size() == 1 && !s.combine.empty()) {
      std::vector<Store> all;
      for (const ScanPort& place : it->second) {
        out.targets[0] = {place.buffer,
                          indexAt(place, p.declared.at(s.targets[0].buffer), s.targets[0].index)};
        all.push_back(out);
      }
      return all;
    }
    out.targets.clear();
    out.values.clear();
    for (size_t i = 0; i < s.targets.size(); i++) {
      const auto it = p.places.find(s.targets[i].buffer);
      if (it == p.places.end()) {
        out.targets.push_back(s.targets[i]);
        out.values.push_back(s.values[i]);
        continue;
      }
      for (const ScanPort& place : it->second) {
        out.targets.push_back(
            {place.buffer, indexAt(place, p.declared.at(s.targets[i].buffer), s.targets[i].index)});
        out.values.push_back(s.values[i]);
      }
    }
    return {out};
  }
  /// Operands lie where their buffers do. A flat buffer has no axes behind the row's own.
  Intrin moved(const Part& p, Intrin i) {
    std::optional<Dot> dot = dotOf(*p.lowered.module.intrin(i.name));
    for (IntrinArg& a : i.args) {
      Ref* r = std::get_if<Ref>(&a.value);
      const auto it = r ? p.places.find(r->buffer) : p.places.end();
      if (it == p.places.end()) continue;
      const ScanPort& place = it->second[0];
      if (isFlat(place.buffer) && dot) dot->trailing = 0;
      *r = {place.buffer, indexAt(place, p.declared.at(r->buffer), r->index)};
    }
    if (dot) {
      const IntrinDef def = tektite::declare(*dot);
      i.name = def.name;
      declareIntrin(out_.kernel.module, def);
    }
    return i;
  }
  /// A result that is copied out may have several places.
  std::vector<Copy> moved(const Part& p, Copy c) {
    if (const auto it = p.places.find(c.from.buffer); it != p.places.end())
      c.from = {it->second[0].buffer,
                indexAt(it->second[0], p.declared.at(c.from.buffer), c.from.index)};
    const auto it = c.to ? p.places.find(c.to->buffer) : p.places.end();
    if (it == p.places.end()) return {c};
    std::vector<Copy> out;
    for (const ScanPort& place : it->second) {
      out.push_back(c);
      out.back().to = Ref{place.buffer, indexAt(place, p.declared.at(c.to->buffer), c.to->index)};
    }
    return out;
  }
  Block moved(const Part& p, const Block& block) {
    Block out;
    for (const Stmt& s : block) {
      if (const Alloc* a = s.as<Alloc>(); a && a->buffer.space == "main") continue;
      const Stmt t = mapStmtExprs(s, [&](const Expr& e) { return moved(p, e); });
      if (const Store* store = t.as<Store>())
        for (Store& one : moved(p, *store)) out.push_back({std::move(one), t.comment});
      else if (const Intrin* call = t.as<Intrin>())
        out.push_back({moved(p, *call), t.comment});
      else if (const Copy* copy = t.as<Copy>())
        for (Copy& one : moved(p, *copy)) out.push_back({std::move(one), t.comment});
      else if (const For* f = t.as<For>())
        out.push_back(withBody(t, moved(p, f->body)));
      else if (const If* i = t.as<If>())
        out.push_back(withBody(t, moved(p, i->body)));
      else if (const BlockStmt* b = t.as<BlockStmt>())
        out.push_back(withBody(t, moved(p, b->body)));
      else
        out.push_back(t);
    }
    return out;
  }

  void sync(Block& out) {
    out.push_back({Sync{Sync::Grid, "", 0}, ""});
    use_.clear();
  }
  static std::string keyOf(const ScanPort& p) {
    return p.at ? p.buffer + "[" + toText(p.at) + "]" : p.buffer;
  }
  /// Does the part touch what another wrote since the last sync, or write what another touched?
  bool meets(const Part& p) const {
    const auto used = [&](const ScanPort& port, const char* how) {
      const auto it = use_.find(keyOf(port));
      return it != use_.end() && it->second.count(how);
    };
    for (const ScanPort& port : p.part->inputs)
      if (used(port, "w")) return true;
    for (const auto& places : p.part->outputs)
      for (const ScanPort& port : places)
        if (used(port, "w") || used(port, "r")) return true;
    return false;
  }
  bool isStep(const ScanPart& p) const {
    return std::ranges::any_of(scan_.each, [&](const ScanPart& other) { return &other == &p; });
  }
  void sequence(Block& out, std::vector<Part>::iterator& next, size_t count) {
    for (size_t i = 0; i < count; i++, ++next) {
      if (meets(*next)) sync(out);
      Block body = moved(*next, next->lowered.kernel().body);
      const Expr step = var(kStepVariable), late = next->part->delay;
      if (scan_.delay > 0 && isStep(*next->part)) {
        const Expr runs = logicalAnd(le(late, step), lt(step, late + Expr(scan_.steps)));
        out.push_back({If{runs, std::move(body)}, ""});
      } else {
        for (Stmt& s : body) out.push_back(std::move(s));
      }
      for (const ScanPort& port : next->part->inputs) use_[keyOf(port)].insert("r");
      for (const auto& places : next->part->outputs)
        for (const ScanPort& port : places) use_[keyOf(port)].insert("w");
    }
  }
};

}  // namespace

LoweredScan lowerScan(const GroupPlan& plan, const Target& target, const std::string& kernelName,
                      bool scheduled) {
  LoweredScan out = ScanLowering(plan, target, scheduled).run(kernelName);
  if (target.hasExplicitMemory()) keepOnCore(out.kernel.module, target);
  return out;
}

}  // namespace tektite
