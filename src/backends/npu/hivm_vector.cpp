#include "backends/npu/hivm_vector.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/mentions.h"

namespace tektite {
namespace {

const std::map<Op, const char*>& instructions() {
  static const std::map<Op, const char*> table = {
      {Op::Add, "vadd"}, {Op::Sub, "vsub"}, {Op::Mul, "vmul"},   {Op::Div, "vdiv"},
      {Op::Max, "vmax"}, {Op::Min, "vmin"}, {Op::Exp, "vexp"},   {Op::Log, "vln"},
      {Op::Abs, "vabs"}, {Op::Erf, "verf"}, {Op::Sqrt, "vsqrt"}, {Op::Tanh, "vtanh"}};
  return table;
}
const std::map<std::string, const char*>& reductions() {
  static const std::map<std::string, const char*> table = {
      {"sum", "sum"}, {"max", "max"}, {"min", "min"}};
  return table;
}
bool commutes(Op op) { return op == Op::Add || op == Op::Mul || op == Op::Max || op == Op::Min; }
bool isVectorType(DType t) { return t == DType::F32 || t == DType::F16; }

class VectorLoop {
 public:
  VectorLoop(MlirText& out, const For& loop, const Ranges& ranges)
      : out_(out), loop_(loop), most_(boundsOf(loop.extent, ranges).high) {}

  bool fits() { return most_ >= 2 && most_ <= 1 << 16 && collect(loop_.body); }
  bool run() {
    if (!fits()) return false;
    size_ = out_.index(loop_.extent);
    for (const Store* s : stores_) store(*s);
    return true;
  }

 private:
  struct Value {
    std::string value, type;
    bool lanes = false;
  };
  MlirText& out_;
  const For& loop_;
  const int64_t most_;
  std::string size_;
  std::vector<const Store*> stores_;
  std::set<std::string> local_;           // registers of a lane
  std::map<std::string, Value> current_;  // what they hold

  // ---- may it be?

  bool collect(const Block& block) {
    for (const Stmt& s : block) {
      if (const Alloc* a = s.as<Alloc>()) {
        if (a->buffer.space != "reg" || !a->buffer.shape.empty()) return false;
        local_.insert(a->buffer.name);
      } else if (const BlockStmt* b = s.as<BlockStmt>()) {
        if (!collect(b->body)) return false;
      } else if (const Store* t = s.as<Store>()) {
        if (!fits(*t)) return false;
        stores_.push_back(t);
      } else {
        return false;
      }
    }
    return !stores_.empty();
  }
  bool fits(const Store& s) const {
    if (s.targets.size() != 1 || !isVectorType(s.values[0].type()) || !fits(s.values[0]))
      return false;
    const std::string& to = s.targets[0].buffer;
    if (local_.count(to)) return s.combine.empty();
    const int64_t step = stepOf(s.targets[0].index, to);
    const bool near = out_.memory.at(to).space == "ub";
    if (s.combine.empty()) return near && step == 1;
    return step == 0 && reductions().count(s.combine) && varies(s.values[0]);
  }
  bool fits(const Expr& e) const {
    if (!varies(e)) return e.type() != DType::Bool && isVectorType(e.type());
    if (!isVectorType(e.type())) return false;
    if (const Load* l = e.as<Load>())
      return local_.count(l->buffer) ||
             (out_.memory.at(l->buffer).space == "ub" && stepOf(l->index, l->buffer) == 1);
    if (const Cast* c = e.as<Cast>()) return fits(c->arg);
    const Apply* a = e.as<Apply>();
    return a && instructions().count(a->op) &&
           std::ranges::all_of(a->args, [&](const Expr& x) { return fits(x); });
  }
  bool varies(const Expr& e) const {
    if (mentions(e, loop_.var)) return true;
    return std::ranges::any_of(
        loadsOf(e), [&](const Expr& l) { return local_.count(l.as<Load>()->buffer) > 0; });
  }
  /// How far neighbours lie apart; -1 where that isn't known.
  int64_t stepOf(const std::vector<Expr>& index, const std::string& buffer) const {
    int64_t step = 0, stride = 1;
    for (size_t d = index.size(); d-- > 0;) {
      const Linear l = linearOf(index[d]);
      for (const auto& [term, c] : l.terms) {
        if (!mentions(term, loop_.var)) continue;
        if (!term.as<Var>()) return -1;
        step += c * stride;
      }
      stride *= asInteger(out_.memory.at(buffer).shape[d]).value_or(1);
    }
    return step;
  }

  // ---- text

  Value lanes(DType t, const std::string& how, const std::string& operands) {
    const std::string type = MlirText::memref(fmt::format("{}x", most_), t, "ub");
    const std::string whole = out_.made("memref.alloc() {alignment = 32 : i64} : " + type);
    Value v;
    v.type = MlirText::memref("?x", t, "ub", "strided<[1]>");
    v.value = out_.made(
        fmt::format("memref.subview {}[0] [{}] [1] : {} to {}", whole, size_, type, v.type));
    v.lanes = true;
    out_.line(fmt::format("hivm.hir.{} {} outs({} : {})", how, operands, v.value, v.type));
    return v;
  }
  static std::string ins(const std::vector<Value>& list) {
    std::string values, types;
    for (const Value& v : list) {
      values += (values.empty() ? "" : ", ") + v.value;
      types += (types.empty() ? "" : ", ") + v.type;
    }
    return fmt::format("ins({} : {})", values, types);
  }
  Value broadcast(const Value& v, DType t) { return v.lanes ? v : lanes(t, "vbrc", ins({v})); }
  Value valueOf(const Expr& e) {
    if (!varies(e)) return {out_.scalar(e), MlirText::typeOf(e.type()), false};
    if (const Load* l = e.as<Load>()) {
      if (const auto at = current_.find(l->buffer); at != current_.end()) return at->second;
      const auto v = out_.view({l->buffer, l->index}, {loop_.var}, {size_});
      return {v->value, v->type, true};
    }
    if (const Cast* c = e.as<Cast>()) return lanes(e.type(), "vcast", ins({valueOf(c->arg)}));
    const Apply& a = *e.as<Apply>();
    std::vector<Value> args;
    for (const Expr& x : a.args) args.push_back(valueOf(x));
    if (args.size() == 2 && !args[0].lanes && commutes(a.op)) std::swap(args[0], args[1]);
    for (Value& v : args)
      if (&v == &args[0] || !commutes(a.op)) v = broadcast(v, e.type());
    return lanes(e.type(), instructions().at(a.op), ins(args));
  }
  void store(const Store& s) {
    const Ref& to = s.targets[0];
    const DType t = s.values[0].type();
    const Value v = valueOf(s.values[0]);
    if (local_.count(to.buffer)) {
      current_[to.buffer] = broadcast(v, t);
    } else if (s.combine.empty()) {
      const auto place = out_.view(to, {loop_.var}, {size_});
      const std::string how = v.lanes ? "copy" : "vbrc";
      out_.line(
          fmt::format("hivm.hir.{} {} outs({} : {})", how, ins({v}), place->value, place->type));
    } else {
      reduce(s, v, t);
    }
  }
  void reduce(const Store& s, const Value& v, DType t) {
    const std::string type = MlirText::memref("1x", t, "ub");
    const std::string one = out_.made("memref.alloc() {alignment = 32 : i64} : " + type);
    out_.line(fmt::format("hivm.hir.vreduce <{}> {} outs({} : {}) reduce_dims = [0]",
                          reductions().at(s.combine), ins({v}), one, type));
    const std::string zero = out_.integer(0), e = MlirText::typeOf(t);
    const std::string fresh = out_.made(fmt::format("memref.load {}[{}] : {}", one, zero, type));
    const std::string before = out_.loadOf(s.targets[0].buffer, s.targets[0].index);
    const char* how = s.combine == "sum" ? "addf" : s.combine == "max" ? "maximumf" : "minimumf";
    out_.store(out_.made(fmt::format("arith.{} {}, {} : {}", how, before, fresh, e)),
               s.targets[0].buffer, s.targets[0].index);
  }
};

}  // namespace

bool printVectorLoop(MlirText& out, const For& loop, const Ranges& ranges, bool ask) {
  VectorLoop v(out, loop, ranges);
  return ask ? v.fits() : v.run();
}

}  // namespace tektite
