#pragma once
#include "ops/op.h"

namespace tektite {

/// A value whose axis holds `gates` one after the other, with an axis of their own before it: the gates of one unit stand together, so that a
/// tile of units has all of its own.
Value byGate(Builder&, Value, int axis, int64_t gates);

/// How an LSTM multiplies by its weights, a direction at a time: w [4 hidden, input], r [4 hidden, hidden]. `state` gives
/// [batch, 4, hidden].
struct LstmProducts {
  std::function<Value(Builder&, Value x, Value w, int direction)>
      input;                                                           ///< x [steps, batch, input]
  std::function<std::vector<Value>(Value r, int direction)> captured;  ///< what `state` reads
  std::function<Value(Builder&, Value h, const std::vector<Value>& captured)> state;
};
/// The operator LSTM, its attributes and inputs as ONNX has them but for the products.
Values lstmOf(Builder&, const OpCall&, const LstmProducts&);

}  // namespace tektite
