#include <utility>

#include "emit/llvm_body.h"
#include "support/check.h"

namespace tektite::llvm_text {

/// The instruction where the target has it, else its meaning.
void Body::intrin(const Intrin& i) {
  const IntrinDef* def = module_.intrin(i.name);
  TEKTITE_CHECK(def, "no instruction '{}'", i.name);
  const auto known = dots_.try_emplace(i.name);
  if (known.second) known.first->second = dotOf(*def);
  const std::optional<Dot>& d = known.first->second;
  std::vector<Ref> refs;
  for (const IntrinArg& a : i.args) {
    const Ref* r = std::get_if<Ref>(&a.value);
    if (!r) userError("intrin {}: a CPU has none of variable size", i.name);
    refs.push_back({r->buffer, {}});
    for (const Expr& e : r->index) refs.back().index.push_back(now(e));
  }
  if (d && dotGroup(target_, d->row, d->panel) == d->group) return dot(*d, refs);
  meaning(*def, refs);
}

/// A vector of the tile's bytes, loaded once for all instructions that read it.
std::string Body::tileOf(const Ref& ref, const std::string& type, const std::string& use,
                         const std::function<std::string(const std::string&)>& prepared) {
  const Address a = address(ref);
  const std::string at = pointer(a);
  const Hash key = Hasher().add(std::string_view(use)).add(std::string_view(at)).finish();
  if (const Value* v = memo_.find(key)) return v->text;
  const std::string loaded =
      out_.set(ref.buffer, "load {}, ptr {}, align {}", type, at, alignOf(a));
  const std::string text = prepared(loaded);
  memo_.add(key, {text, DType::I32}, a.place->bit);
  return text;
}

void Body::dot(const Dot& d, const std::vector<Ref>& refs) {
  const int n = d.lanes, wide = n * d.group;
  const std::string sums = vectorOf(d.sum() == DType::F32 ? "float" : "i32", n);
  const std::string words = vectorOf("i32", n), shorts = vectorOf("i16", wide);
  const Address sum = address(refs[0]);
  const std::string at = pointer(sum);
  const int64_t align = alignOf(sum);
  const auto spread = [&](const std::string& word) {
    const std::string one = out_.set("row", "insertelement {} poison, i32 {}, i64 0", words, word);
    return out_.set("row", "shufflevector {0} {1}, {0} poison, <{2} x i32> zeroinitializer", words,
                    one, n);
  };
  const auto asIs = [](const std::string& v) { return v; };
  const std::string old = out_.set("sum", "load {}, ptr {}, align {}", sums, at, align);
  std::string now;
  if (d.sum() == DType::F32) {
    const std::string pairs = vectorOf("bfloat", wide);
    const auto asPairs = [&](const std::string& v) {
      return out_.set("pairs", "bitcast {} {} to {}", words, v, pairs);
    };
    const std::string row = tileOf(refs[1], "i32", "row2",
                                   [&](const std::string& v) { return asPairs(spread(v)); }),
                      panel = tileOf(refs[2], words, "panel2", asPairs);
    now = out_.call("sum", sums, fmt::format("llvm.x86.avx512bf16.dpbf16ps.{}", n * 32),
                    fmt::format("{} {}, {} {}, {} {}", sums, old, pairs, row, pairs, panel),
                    fmt::format("{}, {}, {}", sums, pairs, pairs));
  } else if (d.group == 4) {
    const std::string row = tileOf(refs[1], "i32", "row4", spread),
                      panel = tileOf(refs[2], words, "panel4", asIs);
    const bool rowFirst = d.row == DType::U8;  // the unsigned operand comes first
    now = out_.call("sum", words, fmt::format("llvm.x86.avx512.vpdpbusd.{}", n * 32),
                    fmt::format("{0} {1}, {0} {2}, {0} {3}", words, old, rowFirst ? row : panel,
                                rowFirst ? panel : row),
                    fmt::format("{0}, {0}, {0}", words));
  } else {
    const auto widened = [&](DType t, int count, const std::string& v) {
      return out_.set("wide", "{} {} {} to {}", t == DType::U8 ? "zext" : "sext",
                      vectorOf("i8", count), v, vectorOf("i16", count));
    };
    const auto rowOf = [&](const std::string& v) {
      std::string word = v;
      if (d.row != DType::I16)
        word = out_.set("row", "bitcast <2 x i16> {} to i32", widened(d.row, 2, v));
      return out_.set("row", "bitcast {} {} to {}", words, spread(word), shorts);
    };
    const std::string row =
        tileOf(refs[1], d.row == DType::I16 ? "i32" : "<2 x i8>", "row2", rowOf);
    const std::string panel =
        tileOf(refs[2], vectorOf("i8", wide), "panel2",
               [&](const std::string& v) { return widened(d.panel, wide, v); });
    const char* name = n == 16  ? "llvm.x86.avx512.pmaddw.d.512"
                       : n == 8 ? "llvm.x86.avx2.pmadd.wd"
                                : "llvm.x86.sse2.pmadd.wd";
    const std::string products =
        out_.call("dot", words, name, fmt::format("{0} {1}, {0} {2}", shorts, row, panel),
                  fmt::format("{0}, {0}", shorts));
    now = out_.set("sum", "add {} {}, {}", words, old, products);
  }
  out_.line("store {} {}, ptr {}, align {}", sums, now, at, align);
  memo_.forget(sum.place->bit);
}

/// The block that says what the instruction does, on the tiles that it is called with.
void Body::meaning(const IntrinDef& def, const std::vector<Ref>& refs) {
  std::vector<Place> tiles;
  uint64_t written = 0;
  for (size_t k = 0; k < refs.size(); k++) {
    const Address a = address(refs[k]);
    const Buffer& tile = def.params[k].buffer;
    Place p = *a.place;
    p.name = tile.name;
    p.pointer = pointer(a);
    p.shape = tile.shape;
    p.strides.assign(a.place->strides.end() - static_cast<int64_t>(tile.shape.size()),
                     a.place->strides.end());
    p.align = alignOf(a);
    p.scratchAt = -1;
    written |= p.bit;
    tiles.push_back(std::move(p));
  }
  const auto places = places_;
  const auto constants = std::exchange(constants_, {});  // names of the meaning are its own
  const auto variables = variables_;
  memo_.push(true);
  for (Place& p : tiles) places_[p.name] = std::move(p);
  reads_.clear();
  varies_.clear();
  block(def.body);
  memo_.pop();
  places_ = places;
  constants_ = constants;
  variables_ = variables;
  reads_.clear();
  varies_.clear();
  memo_.forget(written);
}

}  // namespace tektite::llvm_text
