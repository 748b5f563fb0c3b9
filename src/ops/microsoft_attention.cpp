#include <algorithm>
#include <cmath>

#include "ops/attention_parts.h"
#include "ops/microsoft.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Attention as onnxruntime's transformer optimiser writes it: masks and packings become those of ONNX's operator.
namespace tektite {

Value part(Builder& b, Value v, int axis, Expr from, Expr count) {
  auto sizes = b.type(v).shape;
  std::vector<Expr> starts(sizes.size(), 0);
  starts[static_cast<size_t>(axis)] = std::move(from);
  sizes[static_cast<size_t>(axis)] = std::move(count);
  return b.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1));
}

Value headsFirst(Builder& b, Value v, int64_t heads) {
  const auto s = b.type(v).shape;
  const int64_t all = needStatic(s.at(2), "the hidden size");
  if (heads < 1 || all % heads) userError("{} channels in {} heads", all, heads);
  return b.transpose(b.reshape(v, {s.at(0), s.at(1), heads, all / heads}), {0, 2, 1, 3});
}

Value paddingMask(Builder& b, const OpCall& c, Value mask, Expr keys) {
  if (!mask) return mask;
  const auto s = b.type(mask).shape;
  const DType t = b.dtype(mask);
  const Expr none = imm(DType::F32, 0),
             closed = imm(DType::F32, c.real("mask_filter_value", -10000));
  if (b.rank(mask) == 1)  // how many keys are open, row by row
    return b.map(select(lt(var("d3"), cast(DType::I64, var("$0", t))), none, closed),
                 {b.reshape(mask, {s.at(0), 1, 1, 1})}, {s.at(0), 1, 1, keys});
  if (b.rank(mask) > 3) userError("a mask of rank {}, expected 1, 2 or 3", b.rank(mask));
  const Value flags = b.rank(mask) == 2 ? b.reshape(mask, {s.at(0), 1, 1, s.at(1)})
                                        : b.reshape(mask, {s.at(0), 1, s.at(1), s.at(2)});
  return b.map(select(eq(var("$0", t), imm(t, 0)), closed, none), {flags});
}

Values attend(Builder& b, const OpCall& c, const AttentionParts& parts) {
  OpCall call{"Attention",
              {parts.q, parts.k, parts.v, parts.mask, parts.pastKeys, parts.pastValues}};
  call.outputs = 4;
  const double scale = c.real("scale", 0);
  if (scale != 0) call.attributes["scale"] = scale;
  if (c.integer("unidirectional", 0)) call.attributes["is_causal"] = int64_t{1};
  if (c.given("softcap")) call.attributes["softcap"] = c.real("softcap");
  std::vector<Value> out = buildOp(b, call);
  const auto s = b.type(out.at(0)).shape;  // [batch, heads, steps, size]
  out.at(0) = b.reshape(b.transpose(out.at(0), {0, 2, 1, 3}),
                        {s.at(0), s.at(2), simplified(b, s.at(1) * s.at(3))});
  return out;
}

namespace {

Value sumOfMasks(Builder& b, Value x, Value y) {
  return x && y ? b.map("a + b", {x, y}) : x ? x : y;
}

/// Keys that there are: those of the call and those before.
Expr keysOf(Builder& b, const AttentionParts& p) {
  const Expr own = b.type(p.k).shape.at(2);
  return p.pastKeys ? simplified(b, own + b.type(p.pastKeys).shape.at(2)) : own;
}

/// One product makes queries, keys and values.
const OpDef attention{
    "Attention", Takes{"f3 f2 f1 i1-3 f5 f2-4 i0-1"},
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: x [batch, steps, in], weight [in, q + k + v], bias, mask, past [2, batch, heads, before, size], added to the scores
      const int64_t heads = c.integer("num_heads");
      Value all = built(b, "MatMul", {c.at(0), c.at(1)});
      if (c.has(2)) all = b.map("a + b", {all, c.at(2)});
      const int64_t width = needStatic(b.type(all).shape.at(2), "the weight's width");
      const auto sizes = c.integers("qkv_hidden_sizes", std::vector<int64_t>(3, width / 3));
      if (sizes.size() != 3 || sizes.at(0) + sizes.at(1) + sizes.at(2) != width)
        userError("attribute 'qkv_hidden_sizes' doesn't add up to the weight's width {}", width);
      if (c.integer("do_rotary", 0)) userError("attribute 'do_rotary' is not supported");
      AttentionParts p;
      p.q = headsFirst(b, part(b, all, 2, 0, sizes.at(0)), heads);
      p.k = headsFirst(b, part(b, all, 2, sizes.at(0), sizes.at(1)), heads);
      p.v = headsFirst(b, part(b, all, 2, sizes.at(0) + sizes.at(1), sizes.at(2)), heads);
      if (c.has(4)) {
        p.pastKeys = squeeze(b, part(b, c.at(4), 0, 0, 1), {0});
        p.pastValues = squeeze(b, part(b, c.at(4), 0, 1, 1), {0});
      }
      p.mask = sumOfMasks(b, paddingMask(b, c, c.optional(3), keysOf(b, p)), c.optional(5));
      const auto out = attend(b, c, p);
      return {out.at(0), b.concat({unsqueeze(b, out.at(1), {0}), unsqueeze(b, out.at(2), {0})}, 0)};
    },
    1, kMicrosoft};

/// Queries, keys and values that stand side by side for every head: [batch, steps, heads, count, size], the one of number `i`.
Value packed(Builder& b, Value v, int64_t i) {
  return b.transpose(squeeze(b, part(b, v, 3, i, 1), {3}), {0, 2, 1, 3});
}

const OpDef multiHead{
    "MultiHeadAttention", Takes{"f3-5 f3-5 f3-4 f1 i1-3 f2-4 f4 f4"},
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: query, key, value, bias, padding mask, added to the scores, past keys, past values
      const int64_t heads = c.integer("num_heads");
      const auto biased = [&](size_t i, Expr from) {
        const Value v = c.at(i);
        return c.has(3) ? b.map("a + b", {v, part(b, c.at(3), 0, from, b.type(v).shape.at(2))}) : v;
      };
      AttentionParts p;
      if (b.rank(c.at(0)) == 5) {
        for (const auto& [to, i] : {std::pair{&p.q, 0}, {&p.k, 1}, {&p.v, 2}})
          *to = packed(b, c.at(0), i);
      } else {
        const Expr width = b.type(c.at(0)).shape.at(2);
        p.q = headsFirst(b, biased(0, 0), heads);
        if (b.rank(c.at(1)) == 5) {
          p.k = packed(b, c.at(1), 0);
          p.v = packed(b, c.at(1), 1);
        } else if (b.rank(c.at(1)) == 4) {  // heads first already
          p.k = c.at(1);
          p.v = c.at(2);
        } else {
          p.k = headsFirst(b, biased(1, width), heads);
          p.v = headsFirst(b, biased(2, simplified(b, width + b.type(c.at(1)).shape.at(2))), heads);
        }
      }
      p.pastKeys = c.optional(6);
      p.pastValues = c.optional(7);
      p.mask = sumOfMasks(b, paddingMask(b, c, c.optional(4), keysOf(b, p)), c.optional(5));
      return attend(b, c, p);
    },
    1, kMicrosoft};

/// Channels turned by their position's angle: x, position ids ([1]: of the first step, or [batch, steps]), tables of cosines and sines.
const OpDef rotary{
    "RotaryEmbedding", Takes{"f3-4 i0-2 f2 f2"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const auto shape = b.type(x).shape;
      const bool flat = b.rank(x) == 3;
      Value ids = c.at(1);
      const Expr batch = shape.at(0), steps = shape[flat ? 1 : 2];
      if (b.rank(ids) < 2)
        ids = b.map(apply(Op::Add, {var("$0", DType::I64), var("d1")}),
                    {b.reshape(b.convert(ids, DType::I64), {1, 1})}, {batch, steps});
      int64_t heads = c.integer("num_heads", 0);
      const int64_t turned = c.integer("rotary_embedding_dim", 0);
      if (flat && heads == 0) {
        const int64_t half = needStatic(b.type(c.at(2)).shape.at(1), "the table's width");
        const int64_t size = turned ? turned : 2 * half;
        if (size < 1) userError("heads of {} channels", size);
        heads = needStatic(shape.at(2), "the hidden size") / size;
      }
      std::map<std::string, Attribute> attributes = {{"interleaved", c.integer("interleaved", 0)},
                                                     {"rotary_embedding_dim", turned}};
      if (flat) attributes["num_heads"] = heads;
      return built(b, "RotaryEmbedding", {x, c.at(2), c.at(3), ids}, attributes);
    },
    1, kMicrosoft};

/// Where the first query of each row stands among the keys: [batch, 1, 1, 1].
Value firstPlace(Builder& b, const OpCall& c, Expr batch, Expr steps, bool isPrompt) {
  if (isPrompt) return b.splat(DType::I64, 0, {batch, 1, 1, 1});
  const Value last = b.reshape(b.convert(c.at(5), DType::I64), {batch, 1, 1, 1});
  return b.map(var("$0", DType::I64) + 1 - steps, {last}, {batch, 1, 1, 1});
}

/// The cache with this call's keys or values written behind what each row holds.
Value appended(Builder& b, Value past, Value now, Value places) {
  if (!past) return now;
  auto shape = b.type(past).shape;
  shape.at(2) = simplified(b, shape.at(2) + b.type(now).shape.at(2));
  const DType t = b.dtype(past);
  const Value base = b.map(select(lt(var("d2"), var("$1", DType::I64)), var("$0", t), imm(t, 0)),
                           {b.view(past, shape, coordinates(4), imm(t, 0)), places});
  auto index = coordinates(4);
  index.at(2) = index.at(2) + indexLoad(b, 1, places, {var("d0"), 0, 0, 0});
  return b.update(base, {places}, now, index, "");
}

/// Heads share keys and values; the cache grows by this call's, and rows of a batch may hold different numbers of keys.
const OpDef groupQuery{
    "GroupQueryAttention", Takes{"f3 f3 f3 f4 f4 i1-2 i0-1 f2 f2 i2 f2-4"},
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: query, key, value, past keys, past values, last key's number a row, number of keys, cosines, sines, positions, added to the scores
      const int64_t heads = c.integer("num_heads"), kvHeads = c.integer("kv_num_heads");
      constexpr int64_t kMostHeads = 1 << 20;
      if (std::min(heads, kvHeads) < 1 || std::max(heads, kvHeads) > kMostHeads)
        userError("{} heads and {} of keys", heads, kvHeads);
      AttentionParts p;
      if (c.has(1)) {
        p.q = headsFirst(b, c.at(0), heads);
        p.k = headsFirst(b, c.at(1), kvHeads);
        p.v = headsFirst(b, c.at(2), kvHeads);
      } else {
        const int64_t size =
            needStatic(b.type(c.at(0)).shape.at(2), "the hidden size") / (heads + 2 * kvHeads);
        p.q = headsFirst(b, part(b, c.at(0), 2, 0, heads * size), heads);
        p.k = headsFirst(b, part(b, c.at(0), 2, heads * size, kvHeads * size), kvHeads);
        p.v = headsFirst(b, part(b, c.at(0), 2, (heads + kvHeads) * size, kvHeads * size), kvHeads);
      }
      const Expr batch = b.type(p.q).shape.at(0), steps = b.type(p.q).shape.at(2);
      const bool hasPast = c.has(3) && !isConstant(b.type(c.at(3)).shape.at(2), 0);
      const Value places = firstPlace(b, c, batch, steps, !hasPast);
      if (c.integer("do_rotary", 0)) {
        const Value ids = c.has(9) ? c.at(9)
                                   : b.map(var("$0", DType::I64) + var("d1"),
                                           {b.reshape(places, {batch, 1})}, {batch, steps});
        for (Value* v : {&p.q, &p.k})
          *v = built(b, "RotaryEmbedding", {*v, c.at(7), c.at(8), ids},
                     {{"interleaved", c.integer("rotary_interleaved", 0)}});
      }
      p.k = appended(b, hasPast ? c.at(3) : Value{}, p.k, places);
      p.v = appended(b, hasPast ? c.at(4) : Value{}, p.v, places);
      const Expr keys = b.type(p.k).shape.at(2);
      const Expr row = var("$0", DType::I64) + var("d2"), column = var("d3");
      Expr open = le(column, row);
      if (const int64_t window = c.integer("local_window_size", -1); window >= 0)
        open = logicalAnd(open, lt(row - window, column));
      const DType t = b.dtype(p.q);
      const Value mask =
          b.map(select(open, imm(t, 0), lowestOf(t)), {places}, {batch, 1, steps, keys});
      p.mask = sumOfMasks(b, mask, c.optional(10));
      if (c.integer("smooth_softmax", 0)) userError("attribute 'smooth_softmax' is not supported");
      const auto out = attend(b, c, p);
      return {out.at(0), p.k, p.v};
    },
    1, kMicrosoft};

}  // namespace
}  // namespace tektite
