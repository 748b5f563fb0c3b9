#include <cmath>

#include "ops/nested.h"
#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

Value sliceLast(Builder& b, Value v, int64_t start, int64_t size, int64_t step = 1) {
  auto sizes = b.type(v).shape;
  std::vector<Expr> starts(sizes.size(), 0);
  std::vector<int64_t> steps(sizes.size(), 1);
  starts.back() = start;
  sizes.back() = size;
  steps.back() = step;
  return b.slice(v, starts, sizes, steps);
}

/// [batch, steps, heads * size] as [batch, heads, steps, size].
Value byHead(Builder& b, Value v, int64_t heads) {
  const auto s = b.type(v).shape;
  const int64_t all = needStatic(s.at(2), "the hidden size");
  if (heads < 1 || all % heads) userError("{} channels in {} heads", all, heads);
  return b.transpose(b.reshape(v, {s.at(0), s.at(1), heads, all / heads}), {0, 2, 1, 3});
}
Value joinHeads(Builder& b, Value v) {
  const auto s = b.type(v).shape;
  return b.reshape(b.transpose(v, {0, 2, 1, 3}), {s.at(0), s.at(2), s.at(1) * s.at(3)});
}

/// Is key `column` open to query `row`? Both count from `offset` queries before the first key's end.
Value openKeys(Builder& b, const OpCall& c, const std::vector<Expr>& shape, Value offset) {
  const Expr row = var("d2") + var("$0"), column = var("d3");
  Expr open = boolean(true);
  if (c.integer("is_causal", 0)) open = le(column, row);
  const int64_t left = c.integer("left_window_size", -1),
                right = c.integer("right_window_size", -1);
  if (left >= 0) open = logicalAnd(open, le(row - left, column));
  if (right >= 0) open = logicalAnd(open, le(column, row + right));
  return b.map(open, {offset}, shape);
}

/// The additive mask: nothing where all keys are open.
Value maskOf(Builder& b, const OpCall& c, DType t, Expr queries, Expr keys, Expr before) {
  Value mask;
  if (c.has(3)) {
    mask = c.at(3);
    const bool flags = b.dtype(mask) == DType::Bool;
    const Expr columns = lastExtent(b, mask);
    if (!(columns == keys)) {  // keys past the mask are closed
      auto shape = b.type(mask).shape;
      shape.back() = keys;
      mask = b.view(mask, shape, coordinates(static_cast<int>(shape.size())),
                    flags ? boolean(false) : lowestOf(t));
    }
    if (flags) mask = b.map(select(var("$0", DType::Bool), imm(t, 0), lowestOf(t)), {mask});
  }
  const auto close = [&](Value open) {
    const Value add = b.map(select(var("$0", DType::Bool), imm(t, 0), lowestOf(t)), {open});
    mask = mask ? b.map("a + b", {mask, add}) : add;
  };
  const bool limited = c.integer("is_causal", 0) || c.integer("left_window_size", -1) >= 0 ||
                       c.integer("right_window_size", -1) >= 0;
  const Value lengths =
      c.has(6) ? b.reshape(b.convert(c.at(6), DType::I64), {b.type(c.at(6)).shape.at(0), 1, 1, 1})
               : Value{};
  if (limited && lengths) {
    close(openKeys(b, c, {b.type(lengths).shape.at(0), 1, queries, keys},
                   b.map(var("$0") - queries, {lengths})));
  } else if (limited) {
    close(openKeys(b, c, {1, 1, queries, keys}, b.fromKnown({before}, true)));
  }
  if (lengths)
    close(b.map(lt(var("d3"), var("$0")), {lengths}, {b.type(lengths).shape.at(0), 1, 1, keys}));
  return mask;
}

/// Rows with every key closed become 0.
Value softmaxOfMasked(Builder& b, Value x) {
  const int axis = b.rank(x) - 1;
  const Value top = b.map("select(isinf(a) & a < 0, 0, a)", {b.reduce("max", x, {axis})});
  const Value e = b.map("exp(a - b)", {x, top});
  return b.map("select(b == 0, 0, a / b)", {e, b.reduce("sum", e, {axis})});
}
Value softmaxOf(Builder& b, Value x) {
  const int axis = b.rank(x) - 1;
  const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {axis})});
  return b.map("a / b", {e, b.reduce("sum", e, {axis})});
}

const OpDef attention{
    "Attention", Takes{"f3-4 f3-4 f3-4 *1-4 f4 f4 i1"},
    [](Builder& b, const OpCall& c) -> Values {
      Value q = c.at(0), k = c.at(1), v = c.at(2);
      const bool flat = b.rank(q) == 3;
      if (flat) {
        const int64_t heads = c.integer("q_num_heads"), kvHeads = c.integer("kv_num_heads");
        q = byHead(b, q, heads);
        k = byHead(b, k, kvHeads);
        v = byHead(b, v, kvHeads);
      }
      if (b.rank(q) != 4 || b.rank(k) != 4 || b.rank(v) != 4)
        userError("ranks {}, {}, {}, expected 3 or 4", b.rank(q), b.rank(k), b.rank(v));
      const DType t = b.dtype(q), wide = accumulatorOf(t);
      const double size = static_cast<double>(needStatic(b.type(q).shape.at(3), "the head size"));
      Expr before = 0;
      if (c.has(4)) {
        before = b.type(c.at(4)).shape.at(2);
        k = b.concat({c.at(4), k}, 2);
        v = b.concat({c.at(5), v}, 2);
      }
      // Heads that share keys and values: a label of the query alone.
      const auto qs = b.type(q).shape, ks = b.type(k).shape;
      const int64_t heads = needStatic(qs.at(1), "the number of heads"),
                    kvHeads = needStatic(ks.at(1), "the number of key heads");
      if (kvHeads < 1 || heads % kvHeads) userError("{} heads share {} of keys", heads, kvHeads);
      const bool shared = heads != kvHeads;
      const Value grouped =
          shared ? b.reshape(q, {qs.at(0), kvHeads, heads / kvHeads, qs.at(2), qs.at(3)}) : q;
      Value scores = b.contract(shared ? "bhgqd,bhkd->bhgqk" : "bhqd,bhkd->bhqk", grouped, k, wide);
      if (shared) scores = b.reshape(scores, {qs.at(0), heads, qs.at(2), ks.at(2)});
      scores = b.map(fmt::format("a * {}", number(c.real("scale", 1 / std::sqrt(size)))), {scores});
      const Value raw = scores;
      const double cap = c.real("softcap", 0);
      if (cap > 0)
        scores = b.map(fmt::format("{} * tanh(a / {})", number(cap), number(cap)), {scores});
      const Value capped = scores, mask = maskOf(b, c, t, qs.at(2), ks.at(2), before);
      if (mask) scores = b.map("a + b", {scores, b.convert(mask, wide)});
      const Value p = b.convert(mask ? softmaxOfMasked(b, scores) : softmaxOf(b, scores), t);
      const Value weights =
          shared ? b.reshape(p, {qs.at(0), kvHeads, heads / kvHeads, qs.at(2), ks.at(2)}) : p;
      Value y = b.contract(shared ? "bhgqk,bhkd->bhgqd" : "bhqk,bhkd->bhqd", weights, v, wide);
      if (shared) y = b.reshape(y, {qs.at(0), heads, qs.at(2), b.type(v).shape.at(3)});
      y = b.convert(flat ? joinHeads(b, y) : y, t);
      const Value shown[] = {raw, capped, scores, p};
      const int64_t mode = c.integer("qk_matmul_output_mode", 0);
      if (mode < 0 || mode > 3)
        userError("attribute 'qk_matmul_output_mode' is {}, expected 0 to 3", mode);
      return {y, k, v, b.convert(shown[mode], t)};
    },
    23};

/// Pairs of channels turned by the angle of their position.
const OpDef rotary{
    "RotaryEmbedding", Takes{"f3-4 =2-3 =2-3 i2"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const bool flat = b.rank(x) == 3;
      const Value in =
          flat ? byHead(b, x, c.integer("num_heads")) : x;  // [batch, heads, steps, size]
      const int64_t size = needStatic(b.type(in).shape.at(3), "the head size");
      const int64_t given = c.integer("rotary_embedding_dim", 0), turned = given ? given : size,
                    half = turned / 2;
      const auto cache = [&](Value table) {
        if (c.has(3)) {  // [positions, half] at position_ids [batch, steps]
          const Value ids = c.at(3);
          const auto s = b.type(ids).shape;
          table = b.gather(table, {ids}, {s.at(0), s.at(1), half},
                           {indexLoad(b, 1, ids, {var("d0"), var("d1")}), var("d2")},
                           imm(b.dtype(table), 0));
        }
        return unsqueeze(b, table, {1});
      };
      const Value cosine = cache(c.at(1)), sine = cache(c.at(2));
      const bool interleaved = c.integer("interleaved", 0);
      const Value x1 = interleaved ? sliceLast(b, in, 0, half, 2) : sliceLast(b, in, 0, half);
      const Value x2 = interleaved ? sliceLast(b, in, 1, half, 2) : sliceLast(b, in, half, half);
      const Value real = b.map("a * c - b * d", {x1, x2, cosine, sine}),
                  imaginary = b.map("a * d + b * c", {x1, x2, cosine, sine});
      auto shape = b.type(in).shape;
      shape.back() = turned;
      Value y =
          interleaved
              ? b.reshape(b.concat({unsqueeze(b, real, {4}), unsqueeze(b, imaginary, {4})}, 4),
                          shape)
              : b.concat({real, imaginary}, 3);
      if (turned < size) y = b.concat({y, sliceLast(b, in, turned, size - turned)}, 3);
      return flat ? joinHeads(b, y) : y;
    },
    23};

/// A state of keys by values, decayed, corrected and written to at each step.
const OpDef linearAttention{
    "LinearAttention", Takes{"f3 f3 f3 f4 f3 f3"}, [](Builder& b, const OpCall& c) -> Values {
      const int64_t heads = c.integer("q_num_heads"), kvHeads = c.integer("kv_num_heads");
      const std::string rule = c.text("update_rule", "gated_delta");
      const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
      if (!gated && !delta && rule != "linear") userError("attribute 'update_rule' is '{}'", rule);
      if (kvHeads < 1 || heads % kvHeads) userError("{} heads share {} of keys", heads, kvHeads);
      const DType t = b.dtype(c.at(0)), wide = DType::F32;
      const auto steps = [&](Value v, int64_t n) {
        return b.transpose(byHead(b, b.convert(v, wide), n), {2, 0, 1, 3});
      };  // [steps, batch, heads, size]
      const Value q = steps(c.at(0), heads), k = steps(c.at(1), kvHeads),
                  v = steps(c.at(2), kvHeads);
      const Expr batch = b.type(q).shape.at(1), keys = b.type(k).shape.at(3),
                 values = b.type(v).shape.at(3);
      const double given = c.real("scale", 0),
                   scale =
                       given != 0
                           ? given
                           : 1 / std::sqrt(static_cast<double>(needStatic(keys, "the key size")));
      std::vector<Value> scanned = {
          b.reshape(q, {b.type(q).shape.at(0), batch, kvHeads, heads / kvHeads, keys}), k, v};
      if (gated) {
        const bool perHead = isConstant(b.type(c.at(4)).shape.at(2), kvHeads);
        scanned.push_back(perHead
                              ? unsqueeze(b, b.transpose(b.convert(c.at(4), wide), {1, 0, 2}), {3})
                              : steps(c.at(4), kvHeads));
      }
      if (delta)
        scanned.push_back(unsqueeze(b, b.transpose(b.convert(c.at(5), wide), {1, 0, 2}), {3}));
      const DType stored = c.has(3) ? b.dtype(c.at(3)) : t;
      const Value state =
          c.has(3) ? b.convert(c.at(3), wide) : b.splat(wide, 0, {batch, kvHeads, keys, values});
      const auto out = scan(
          b, {state}, scanned, {}, {},
          [&](Builder& b, const std::vector<Value>& in,
              const std::vector<Value>&) -> std::vector<Value> {
            Value s = in.at(0), write = in.at(3);
            if (gated) s = b.map("a * exp(b)", {s, unsqueeze(b, in.at(4), {3})});
            if (delta)
              write = b.map("a * (b - c)",
                            {in[gated ? 5 : 4], write, b.contract("bhdm,bhd->bhm", s, in.at(2))});
            s = b.map("a + b * c", {s, unsqueeze(b, in.at(2), {3}), unsqueeze(b, write, {2})});
            return {s, b.map(fmt::format("a * {}", number(scale)),
                             {b.contract("bhgd,bhdm->bhgm", in.at(1), s)})};
          });
      const auto s = b.type(out.at(1)).shape;
      const Value y = b.reshape(b.transpose(out.at(1), {1, 0, 2, 3, 4}),
                                {batch, s.at(0), Expr(heads) * values});
      return {b.convert(y, t), b.convert(out.at(0), stored)};
    }};

const OpDef causalConv{
    "CausalConvWithState", Takes{"f3 =3 =1 =3"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), w = c.at(1);
      const DType t = b.dtype(x);
      const auto s = b.type(x).shape;
      const int64_t k = needStatic(b.type(w).shape.at(2), "the kernel");
      const Value past = c.has(3) ? c.at(3) : b.splat(t, 0, {s.at(0), s.at(1), k - 1}),
                  in = b.concat({past, x}, 2);
      Value y =
          convolution(b, in, w, {{k}, {1}, {1}, {0}, {0}, {s.at(2)}},
                      needStatic(s.at(1), "the number of channels"), accumulatorOf(t), imm(t, 0));
      y = b.convert(y, t);
      if (c.has(2)) y = b.map("a + b", {y, alongAxis(b, c.at(2), 1, 3)});
      const std::string activation = c.text("activation", "none");
      if (activation == "silu" || activation == "swish")
        y = b.map("a * sigmoid(a)", {y});
      else if (activation != "none")
        userError("attribute 'activation' is '{}', expected none, silu or swish", activation);
      const Value present = b.slice(in, {0, 0, simplified(b, b.type(in).shape.at(2) - (k - 1))},
                                    {s.at(0), s.at(1), k - 1}, {1, 1, 1});
      return {y, present};
    }};

/// Writes a block of steps into a cache, from a place a row of the batch.
const OpDef tensorScatter{
    "TensorScatter", Takes{"*1+ =1+ i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value cache = c.at(0), block = c.at(1);
      const int axis = axisOf(c.integer("axis", -2), b.rank(cache));
      if (b.rank(block) != b.rank(cache))
        userError("input 1 is {}, expected rank {}", toText(b.type(block)), b.rank(cache));
      const std::string mode = c.text("mode", "linear");
      auto index = coordinates(b.rank(cache));
      Expr& at = index[static_cast<size_t>(axis)];
      if (c.has(2)) at = at + indexLoad(b, 1, c.at(2), {var("d0")});
      if (mode == "circular") at = floorMod(at, b.type(cache).shape.at(static_cast<size_t>(axis)));
      return b.update(cache, c.has(2) ? std::vector<Value>{c.at(2)} : std::vector<Value>{}, block,
                      index, "");
    }};

const OpDef swiGlu{"SwiGLU", Takes{"F ="}, [](Builder& b, const OpCall& c) -> Values {
                     const double alpha = c.real("alpha", 1);
                     return b.map(alpha == 1
                                      ? std::string("a * sigmoid(a) * b")
                                      : fmt::format("a * sigmoid(a * {}) * b", number(alpha)),
                                  {c.at(0), c.at(1)});
                   }};

}  // namespace
}  // namespace tektite
