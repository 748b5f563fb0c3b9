#include "fusion/stages.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "fusion/bind_axes.h"
#include "fusion/expander.h"
#include "fusion/merge_stages.h"
#include "fusion/stage_memory.h"
#include "ir/rewriter.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Shows every node of a stage's expressions once.
void eachPart(const Stage& s, const std::function<void(const Expr&)>& see) {
  Walker look([&](const Expr& e) { see(e); });
  for (const auto* stores : {&s.inner, &s.outer})
    for (const StageStore& store : *stores) {
      for (const Expr& e : store.index) look(e);
      look(store.value);
      look(store.guard);
    }
  for (const Accumulator& a : s.accumulators)
    for (const Expr& e : a.values) look(e);
}

class StageFormer {
 public:
  StageFormer(const Graph& g, const Defs& defs, StageMemory& memory)
      : g_(g), defs_(defs), memory_(memory), expand_(defs) {}

  StageSet run() {
    std::vector<FormedStage> stages;
    for (int d = 0; d < static_cast<int>(defs_.list.size()); d++) {
      const Def& def = defs_.list[d];
      computed_.push_back(computed(def));
      read_.push_back(read(def, computed_.back()));
      if ((def.kind == Def::Point && def.stored) ||
          (def.kind == Def::Reduced && def.reduction == d))
        remembered(d, stages);
      if (def.scatter) stages.push_back(formed(scatter(d)));
    }
    for (size_t i = 0; i < defs_.ofOutput.size(); i++)
      if (copied(i)) stages.push_back(formed(copy(static_cast<int>(i))));
    for (FormedStage& f : stages)
      if (f.divides) f = formed(splitAxes(std::move(f.stage)));
    std::set<std::string> kept;
    for (size_t i = 0; i < defs_.ofOutput.size(); i++) kept.insert(outputName(i));
    const bool scatters = std::ranges::any_of(defs_.list, [](const Def& d) { return d.scatter; });
    if (!scatters) stages = mergeStages(std::move(stages), kept);
    StageSet out{{}, {}, {}, {}, scatters};
    for (FormedStage& f : stages) finish(f, out);
    collectBuffers(out);
    return out;
  }

 private:
  const Graph& g_;
  const Defs& defs_;
  StageMemory& memory_;
  Expander expand_;
  int axes_ = 0;
  std::vector<Hash> computed_, read_;  // of each def: what it computes; what a reader sees of it

  Hash computed(const Def& d) const {
    Hasher h;
    h.add(static_cast<int>(d.kind));
    if (d.scalar) h.add(d.scalar.hash());
    if (!d.access) return h.finish();
    const auto list = [&](const std::vector<int64_t>& extents) {
      h.add(static_cast<uint64_t>(extents.size()));
      for (const int64_t n : extents) h.add(n);
    };
    list(d.access->space);
    list(d.access->reduce);
    for (const Expr& e : d.access->values) h.add(e.hash());
    if (const auto& combine = d.access->combine) {
      h.add(std::string_view(combine->name));
      for (const auto* exprs : {&combine->result, &combine->identity})
        for (const Expr& e : *exprs) h.add(e.hash());
    }
    h.add(static_cast<int>(d.access->movesData));
    for (const int o : d.operands) o < 0 ? h.add(0) : h.add(read_[static_cast<size_t>(o)]);
    return h.finish();
  }
  static Hash read(const Def& d, const Hash& computed) {
    if (d.kind != Def::Leaf && !d.stored) return computed;
    Hasher h;
    h.add(std::string_view(d.name)).add(static_cast<int>(d.type));
    for (const int64_t n : d.extents) h.add(n);
    return h.finish();
  }
  static FormedStage formed(Stage s) {
    FormedStage out{std::move(s)};
    std::vector<Expr> loads;
    eachPart(out.stage, [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      out.divides |= a && (a->op == Op::FloorDiv || a->op == Op::Mod);
      if (e.as<Load>()) loads.push_back(e);
    });
    out.loads = std::make_shared<const std::vector<Expr>>(std::move(loads));
    return out;
  }
  /// The stages of a value that is stored, from memory where one like it stood behind as many axes before.
  void remembered(int d, std::vector<FormedStage>& out) {
    const Def& def = defs_.list[d];
    const bool concat = def.kind == Def::Point && isConcat(def);
    Hasher h;
    h.add(axes_)
        .add(read(def, {}))
        .add(computed_[static_cast<size_t>(d)])
        .add(std::string_view(def.name));
    h.add(concat ? g_.nodes[def.value.node].as<Concat>()->axis : -1);
    if (def.kind == Def::Reduced)
      for (size_t m = 0; m < def.access->values.size(); m++)
        h.add(static_cast<int>(defs_.list[static_cast<size_t>(d) + m].type));
    const Hash key = h.finish();
    const auto [at, isNew] = memory_.formed.try_emplace(key);
    StageMemory::Formed& known = at->second;
    if (isNew) {
      const int first = axes_;
      const std::vector<Stage> made = concat                   ? pieces(d)
                                      : def.kind == Def::Point ? std::vector{point(d)}
                                                               : std::vector{reduction(d)};
      for (const Stage& s : made) {
        known.stages.push_back(formed(s));
        known.stages.back().key = Hasher().add(key).add(known.stages.size()).finish();
      }
      known.axes = axes_ - first;
    } else {
      axes_ += known.axes;
    }
    for (const FormedStage& f : known.stages) {
      out.push_back(f);
      out.back().stage.comment = commentOf(def);
    }
  }

  /// An output that has no store of its own: a leaf, a constant, or a value that is an output already.
  bool copied(size_t output) const {
    const int d = defs_.ofOutput[output];
    const Def& def = defs_.list[d];
    if (def.kind == Def::Leaf || def.kind == Def::Scalar) return true;
    return std::find(defs_.ofOutput.begin(), defs_.ofOutput.begin() + static_cast<long>(output),
                     d) != defs_.ofOutput.begin() + static_cast<long>(output);
  }
  std::string outputName(size_t output) const {
    const std::string& name = defs_.list[defs_.ofOutput[output]].name;
    return copied(output) ? "o" + std::to_string(output) + "_" + name : name;
  }

  std::vector<Expr> newAxes(Stage& s, const std::vector<int64_t>& extents, bool reduce) {
    std::vector<Expr> index;
    for (const int64_t extent : extents) {
      index.push_back(extent == 1 ? Expr(0) : var("a" + std::to_string(axes_)));
      if (extent == 1) continue;
      s.axes.push_back(
          {.var = "a" + std::to_string(axes_), .extent = extent, .reduce = reduce, .region = {}});
      expand_.ranges["a" + std::to_string(axes_++)] = {0, std::max<int64_t>(extent - 1, 0)};
    }
    return index;
  }
  std::string commentOf(const Def& d) const {
    const std::string& origin = g_.nodes[d.value.node].origin;
    return origin.empty() ? "%" + std::to_string(d.value.node) : origin;
  }
  Stage point(int d) {
    const Def& def = defs_.list[d];
    Stage s;
    s.comment = commentOf(def);
    const std::vector<Expr> index = newAxes(s, def.extents, false);
    Expr value = expand_.at(d, 0, index, {});
    if (def.access->movesData) value = simplify(value, expand_.ranges);
    s.inner.push_back({def.name, index, value, "", {}});
    return s;
  }
  bool isConcat(const Def& d) const {
    const Node& n = g_.nodes[d.value.node];
    return n.as<Concat>() && n.operands.size() == d.operands.size();
  }
  /// A concatenation by its parts, each a nest that stores at an offset.
  std::vector<Stage> pieces(int d) {
    const Def& def = defs_.list[d];
    const size_t axis = static_cast<size_t>(g_.nodes[def.value.node].as<Concat>()->axis);
    std::vector<Stage> out;
    int64_t offset = 0;
    for (int operand : def.operands) {
      const std::vector<int64_t>& extents = defs_.list[operand].extents;
      Stage s;
      s.comment = commentOf(def);
      std::vector<Expr> index = newAxes(s, extents, false);
      const Expr value = expand_.read(operand, index);
      index[axis] = index[axis] + Expr(offset);
      offset += extents[axis];
      s.inner.push_back({def.name, index, value, "", {}});
      if (extents[axis] > 0) out.push_back(std::move(s));
    }
    return out;
  }
  /// Stores the values of a scatter, those in range, in row-major order.
  Stage scatter(int d) {
    const Def& def = defs_.list[d];
    const int values = def.operands.back();
    Stage s;
    s.comment = commentOf(def);
    const std::vector<Expr> at = newAxes(s, defs_.list[values].extents, false);
    std::vector<Expr> index;
    for (const Expr& e : def.scatter->index)
      index.push_back(
          simplify(rewrite(e,
                           [&](const Expr& x) -> Expr {
                             if (const Var* v = x.as<Var>(); v && v->name[0] == 'd')
                               return at[static_cast<size_t>(std::stoi(v->name.substr(1)))];
                             const Load* l = x.as<Load>();
                             return l && l->buffer[0] == '$'
                                        ? expand_.read(def.operands[std::stoi(l->buffer.substr(1))],
                                                       l->index)
                                        : Expr();
                           }),
                   expand_.ranges));
    const Expr guard = inRange(index, def.extents, expand_.ranges);
    s.inner.push_back({def.name, index, expand_.read(values, at), def.scatter->combine,
                       asInteger(guard) ? Expr() : guard});
    return s;
  }
  Stage copy(int output) {
    const Def& def = defs_.list[defs_.ofOutput[output]];
    Stage s;
    s.comment = commentOf(def);
    const std::vector<Expr> index = newAxes(s, def.extents, false);
    s.inner.push_back(
        {outputName(output), index, expand_.read(defs_.ofOutput[output], index), "", {}});
    return s;
  }
  Stage reduction(int d) {
    const Def& def = defs_.list[d];
    Stage s;
    s.comment = commentOf(def);
    const std::vector<Expr> index = newAxes(s, def.extents, false);
    const std::vector<Expr> reduce = newAxes(s, def.access->reduce, true);
    Accumulator acc{.combine = *def.access->combine, .values = {}, .names = {}};
    for (size_t m = 0; m < def.access->values.size(); m++) {
      const Def& member = defs_.list[d + static_cast<int>(m)];
      acc.values.push_back(expand_.at(d, static_cast<int>(m), index, reduce));
      acc.names.push_back("s_" + member.name);
      s.outer.push_back({member.name, index, var("s_" + member.name, member.type), "", {}});
    }
    s.accumulators.push_back(std::move(acc));
    return s;
  }

  /// Splits an axis whose variable occurs under // or % by constants that divide it: every index becomes affine.
  Stage splitAxes(Stage s) {
    std::map<std::string, std::set<int64_t>> cuts;
    eachPart(s, [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      if (!a || (a->op != Op::FloorDiv && a->op != Op::Mod)) return;
      const auto c = asInteger(a->args[1]);
      if (const Var* v = a->args[0].as<Var>(); v && c && *c > 1) cuts[v->name].insert(*c);
    });
    if (cuts.empty()) return s;
    addAxes(s, expand_.ranges);
    std::unordered_map<std::string, Expr> composite;
    Stage out = s;
    out.axes.clear();
    for (const StageAxis& axis : s.axes) {
      std::vector<int64_t> steps{1};
      if (const auto it = cuts.find(axis.var); it != cuts.end())
        for (const int64_t c : it->second)
          if (c < axis.extent && axis.extent % c == 0 && c % steps.back() == 0) steps.push_back(c);
      if (steps.size() == 1) {
        out.axes.push_back(axis);
        continue;
      }
      Expr sum;
      for (size_t i = steps.size(); i-- > 0;) {
        const int64_t extent = (i + 1 < steps.size() ? steps[i + 1] : axis.extent) / steps[i];
        const Expr part = newAxes(out, {extent}, axis.reduce)[0] * Expr(steps[i]);
        sum = sum ? sum + part : part;
      }
      composite[axis.var] = sum;
    }
    if (composite.empty()) return s;
    change(out, [&](const Expr& e) { return simplify(substitute(e, composite), expand_.ranges); });
    return out;
  }

  void finish(FormedStage& f, StageSet& out) {
    const Hash key = f.key == Hash{} ? hashOf(f.stage) : f.key;
    const auto [at, isNew] = memory_.finished.try_emplace(key);
    std::string comment = std::move(f.stage.comment);
    if (isNew) {
      named(f.stage);
      StageFacts facts = factsOf(f.stage);
      facts.key = key;
      at->second = {std::move(f.stage), std::make_shared<const StageFacts>(std::move(facts))};
    }
    out.stages.push_back(at->second.stage);
    out.stages.back().comment = std::move(comment);
    out.facts.push_back(at->second.facts);
  }
  /// Names axes i0.. and marks contractions: a sum over products of loads at affine indices.
  static void named(Stage& s) {
    std::unordered_map<std::string, Expr> names;
    for (size_t i = 0; i < s.axes.size(); i++) names[s.axes[i].var] = var("i" + std::to_string(i));
    for (size_t i = 0; i < s.axes.size(); i++) s.axes[i].var = "i" + std::to_string(i);
    Rewriter renamed = substituting(names);
    change(s, std::ref(renamed));
    s.contraction = s.accumulators.size() == 1 && s.accumulators[0].combine.name == "sum" &&
                    s.inner.empty() && isProductOfLoads(s.accumulators[0].values[0]) && hasReuse(s);
  }
  static bool isProductOfLoads(const Expr& e) {
    const Apply* a = e.as<Apply>();
    return a && a->op == Op::Mul && isFactor(a->args[0]) && isFactor(a->args[1]);
  }
  /// A load, converted, scaled or shifted.
  static bool isFactor(const Expr& e) {
    if (const Cast* c = e.as<Cast>()) return isFactor(c->arg);
    if (const Apply* a = e.as<Apply>(); a && a->args.size() == 2) {
      if (a->op != Op::Mul && a->op != Op::Sub && a->op != Op::Add) return false;
      return std::ranges::all_of(a->args,
                                 [&](const Expr& x) { return x.as<Imm>() || isFactor(x); });
    }
    const Load* l = e.as<Load>();
    return l && std::ranges::all_of(l->index, [](const Expr& x) {
             return std::ranges::all_of(linearOf(x).terms,
                                        [](const auto& t) { return t.first.template as<Var>(); });
           });
  }

  void collectBuffers(StageSet& set) const {
    std::unordered_set<std::string_view> read, written;
    for (const auto& facts : set.facts) {
      for (const Touch& t : facts->shape.reads) read.insert(facts->buffers[t.buffer]);
      for (const Touch& t : facts->shape.writes) written.insert(facts->buffers[t.buffer]);
    }
    const auto buffer = [&](const Def& d, const std::string& name, PlanBuffer::Kind kind) {
      PlanBuffer b{.kind = kind, .name = name, .value = d.value, .type = {d.type, {}}};
      for (const int64_t extent : d.extents) b.type.shape.push_back(Expr(extent));
      return b;
    };
    for (const Def& d : defs_.list)
      if (d.kind == Def::Leaf && read.count(d.name))
        set.buffers.push_back(
            buffer(d, d.name,
                   g_.nodes[d.value.node].as<Const>() ? PlanBuffer::Constant : PlanBuffer::Input));
    for (size_t i = 0; i < defs_.ofOutput.size(); i++) {
      set.buffers.push_back(
          buffer(defs_.list[defs_.ofOutput[i]], outputName(i), PlanBuffer::Output));
      written.erase(outputName(i));
    }
    for (const Def& d : defs_.list)
      if (written.count(d.name)) set.buffers.push_back(buffer(d, d.name, PlanBuffer::Scratch));
  }
};

}  // namespace

std::vector<Expr> loadsOf(const Stage& s) {
  std::vector<Expr> out;
  eachPart(s, [&](const Expr& e) {
    if (e.as<Load>()) out.push_back(e);
  });
  return out;
}

std::set<std::string> buffersOf(const Stage& s) {
  std::set<std::string> out;
  for (const Expr& l : loadsOf(s)) out.insert(l.as<Load>()->buffer);
  for (const auto* stores : {&s.inner, &s.outer})
    for (const StageStore& store : *stores) out.insert(store.buffer);
  return out;
}
std::set<std::string> buffersOf(const std::vector<Stage>& stages) {
  std::set<std::string> out;
  for (const Stage& s : stages) out.merge(buffersOf(s));
  return out;
}

bool hasReuse(const Stage& s) {
  for (const Accumulator& acc : s.accumulators)
    for (const Expr& value : acc.values)
      for (const Expr& e : loadsOf(value)) {
        const std::vector<std::string> vars = freeVars(e);
        for (const StageAxis& a : s.axes)
          if (!a.reduce && !std::ranges::count(vars, a.var)) return true;
      }
  return false;
}

void change(Stage& s, const std::function<Expr(const Expr&)>& to) {
  for (auto* stores : {&s.inner, &s.outer})
    for (StageStore& store : *stores) {
      for (Expr& e : store.index) e = to(e);
      store.value = to(store.value);
      if (store.guard) store.guard = to(store.guard);
    }
  for (Accumulator& a : s.accumulators)
    for (Expr& e : a.values) e = to(e);
}
std::unordered_map<std::string, Expr> axesAt(const std::vector<Expr>& stored,
                                             const std::vector<Expr>& read) {
  std::unordered_map<std::string, Expr> out;
  for (size_t d = 0; d < stored.size(); d++)
    if (const Var* v = stored[d].as<Var>()) out[v->name] = read[d];
  return out;
}

Stage mapped(Stage s, const std::function<Expr(const Expr&)>& to) {
  change(s, to);
  return s;
}

StageSet formStages(const Graph& body, const Defs& defs, StageMemory& memory) {
  return StageFormer(body, defs, memory).run();
}

}  // namespace tektite
