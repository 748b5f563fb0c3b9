#include "fusion/stages.h"

namespace tektite {
namespace {

/// Adds fields one after the other; lists with their lengths, so that what follows is never taken for one more element.
class PlanHasher {
 public:
  void add(int64_t n) { h_.add(n); }
  void add(int n) { h_.add(n); }
  void add(bool b) { h_.add(int{b}); }
  void add(DType t) { h_.add(static_cast<int>(t)); }
  void add(const std::string& s) { h_.add(std::string_view(s)); }
  void add(const Expr& e) { e ? h_.add(e.hash()) : h_.add(-1); }
  void add(const void* identity) { h_.add(reinterpret_cast<int64_t>(identity)); }
  void add(const TensorType& t) {
    add(t.dtype);
    add(t.shape);
  }
  void add(const Region& r) {
    add(r.base);
    add(r.size);
  }
  void add(const Combine& c) {
    for (const auto* names : {&c.left, &c.right}) add(*names);
    add(c.name);
    add(c.types);
    for (const auto* exprs : {&c.result, &c.identity}) add(*exprs);
  }
  void add(const PlanBuffer& b) {
    add(static_cast<int>(b.kind));
    add(b.name);
    add(b.value.node);
    add(b.value.result);
    add(b.type);
    add(b.order);
    add(b.feedsMoreStages);
    add(static_cast<const void*>(b.constant.get()));
    add(b.space);
    add(b.depth);
    add(b.region);
    add(b.copyOf);
    add(b.ring);
    add(b.newest);
  }
  void add(const StageStore& s) {
    add(s.buffer);
    add(s.index);
    add(s.value);
    add(s.combine);
    add(s.guard);
  }
  void add(const Accumulator& a) {
    add(a.combine);
    add(a.values);
    add(a.names);
  }
  void add(const StageAxis& a) {
    add(a.var);
    add(a.extent);
    add(a.reduce);
    add(a.region);
  }
  void add(const Stage& s) {
    add(s.axes);
    add(s.inner);
    add(s.accumulators);
    add(s.outer);
    add(s.contraction);
    add(s.depth);
    add(s.after);
  }
  void add(const TileAxis& t) {
    add(t.var);
    add(t.extent);
    add(t.tile);
    add(t.grid);
    add(t.warm);
  }
  void add(const TileList& list) {
    add(list.tiles);
    add(list.stages);
    add(list.sync);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    h_.add(static_cast<uint64_t>(list.size()));
    for (const T& element : list) add(element);
  }
  Hash finish() const { return h_.finish(); }

 private:
  Hasher h_;
};

}  // namespace

Hash hashOf(const GroupPlan& plan) {
  PlanHasher h;
  h.add(plan.buffers);
  h.add(plan.lists);
  h.add(static_cast<const void*>(plan.scan.get()));
  h.add(plan.canonical);
  return h.finish();
}
Hash hashOf(const Stage& s) {
  PlanHasher h;
  h.add(s);
  return h.finish();
}

}  // namespace tektite
