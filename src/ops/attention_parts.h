#pragma once
#include "ops/op.h"

namespace tektite {

/// What the attention operators of com.microsoft share; q, k, v, past: [batch, heads, steps, size].
struct AttentionParts {
  Value q, k, v, mask, pastKeys, pastValues;  ///< mask: added to the scores; past: before k and v
};
Value part(Builder&, Value v, int axis, Expr from, Expr count);
Value headsFirst(Builder&, Value v, int64_t heads);  ///< from [batch, steps, heads * size]
/// What is added to the scores, for a mask [batch] (open keys), [batch, keys] or [batch, steps, keys] (0: closed).
Value paddingMask(Builder&, const OpCall&, Value mask, Expr keys);
/// Results: [batch, steps, heads * size], keys, values, with those before.
Values attend(Builder&, const OpCall&, const AttentionParts&);

}  // namespace tektite
