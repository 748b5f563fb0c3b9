#include "ops/quantized.h"
#include "ops/recurrent.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

using Row = std::vector<Value>;

/// Weights as integers, with a scale and a zero point of the whole or of each column. What they multiply is rounded to u8 by its own range:
/// the whole input at once, the state anew in every step.
const OpDef dynamicLstm{
    "DynamicQuantizeLSTM", Takes{"f3 i3 i3 f2 i1 f3 f3 f2 f1-2 i1-2 f1-2 i1-2"},
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: X, W, R, B, lengths, h, c, P, W scale, W zero, R scale, R zero; W, R [directions, input, 4 hidden]
      const auto parameter = [&b, &c](size_t input, int direction) {
        const Value v = c.at(input);
        auto sizes = b.type(v).shape;
        std::vector<Expr> starts(sizes.size(), 0);
        starts.at(0) = direction;
        sizes.at(0) = 1;
        const Value one = b.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1));
        return b.rank(v) == 1 ? b.reshape(one, {}) : squeeze(b, one, {0});
      };
      const auto weights = [&b, parameter](Value w, size_t scale, size_t zero, int d) -> Row {
        const Value z = parameter(zero, d);
        return {centred(b, w, b.rank(z) == 1 ? unsqueeze(b, z, {1}) : z), parameter(scale, d)};
      };
      const auto multiply = [](Builder& b, std::string_view spec, Value x, const Row& w) {
        const Quantized q = quantizedToRange(b, x);
        const Value sum = b.contract(spec, centred(b, q.values, q.zero), w.at(0), DType::I32);
        return b.map("a * (b * c)", {b.convert(sum, DType::F32), q.scale, w.at(1)});
      };
      OpCall call = c;
      for (const size_t i : {1, 2}) call.in[i] = b.transpose(c.at(i), {0, 2, 1});
      call.in.resize(8);
      return lstmOf(
          b, call,
          {[&](Builder& b, Value x, Value w, int d) {
             return multiply(b, "tbi,gi->tbg", x, weights(w, 8, 9, d));
           },
           [&](Value r, int d) {
             Row all = weights(r, 10, 11, d);
             for (Value& v : all)
               if (b.rank(v) > 0) v = byGate(b, v, 0, 4);
             return all;
           },
           [&](Builder& b, Value h, const Row& r) { return multiply(b, "bi,kgi->bkg", h, r); }});
    },
    1, "com.microsoft"};

}  // namespace
}  // namespace tektite
