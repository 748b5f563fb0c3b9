#include "ops/recurrent.h"

#include "ops/nested.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

struct Activation {
  std::string name, alpha, beta;
};

std::string activationText(const Activation& f) {
  const auto or_ = [](const std::string& given, const char* otherwise) {
    return given.empty() ? std::string(otherwise) : given;
  };
  if (f.name == "sigmoid") return "sigmoid(a)";
  if (f.name == "tanh") return "tanh(a)";
  if (f.name == "relu") return "max(a, 0)";
  if (f.name == "affine") return fmt::format("a * {} + {}", or_(f.alpha, "1"), or_(f.beta, "0"));
  if (f.name == "leakyrelu") return fmt::format("select(a < 0, a * {}, a)", or_(f.alpha, "0.01"));
  if (f.name == "thresholdedrelu") return fmt::format("select({} < a, a, 0)", or_(f.alpha, "1"));
  if (f.name == "scaledtanh")
    return fmt::format("{} * tanh(a * {})", or_(f.alpha, "1"), or_(f.beta, "1"));
  if (f.name == "hardsigmoid")
    return fmt::format("max(0, min(1, a * {} + {}))", or_(f.alpha, "0.2"), or_(f.beta, "0.5"));
  if (f.name == "elu") return fmt::format("select(a < 0, {} * expm1(a), a)", or_(f.alpha, "1"));
  if (f.name == "softsign") return "a / (1 + abs(a))";
  if (f.name == "softplus") return "max(a, 0) + log1p(exp(-abs(a)))";
  userError("activation '{}' is not supported", f.name);
}

/// What the three cells share: directions, activations, projections of the input ahead of the recurrence, lengths.
class Recurrence {
 public:
  Recurrence(Builder& b, const OpCall& c, int gates, std::vector<std::string> defaults)
      : b_(b),
        c_(c),
        gates_(gates),
        hidden_(needStatic(lastExtent(b, c.at(2)), "the hidden size")) {
    const std::string direction = c.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      userError("attribute 'direction' is '{}', expected forward, reverse or bidirectional",
                direction);
    directions_ = direction == "bidirectional" ? 2 : 1;
    backward_ = direction == "reverse";
    readActivations(defaults);
    batchFirst_ = c.integer("layout", 0) != 0;
    x_ = batchFirst_ ? b.transpose(c.at(0), {1, 0, 2}) : c.at(0);
    if (c.given("clip")) clip_ = number(c.real("clip"));
  }

  int directions() const { return directions_; }
  int64_t hidden() const { return hidden_; }
  bool reversed(int direction) const { return direction == 1 || backward_; }
  Value input() const { return x_; }
  Expr batch() const { return b_.type(x_).shape.at(1); }

  /// The part of a parameter that belongs to a direction, without that axis.
  Value ofDirection(Value v, int direction, int axis = 0) {
    auto sizes = b_.type(v).shape;
    std::vector<Expr> starts(sizes.size(), 0);
    starts[static_cast<size_t>(axis)] = direction;
    sizes[static_cast<size_t>(axis)] = 1;
    return squeeze(b_, b_.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1)), {axis});
  }
  /// [directions, batch, hidden], zero where it is left out.
  Value initial(size_t input, int direction) {
    if (!c_.has(input)) return b_.splat(b_.dtype(x_), 0, {batch(), hidden_});
    return ofDirection(c_.at(input), direction, batchFirst_ ? 1 : 0);
  }
  /// Rows of gates [from, from + count) of a [gates * hidden, ...] tensor.
  static Value rows(Builder& b, Value v, int axis, int64_t from, int64_t count) {
    auto sizes = b.type(v).shape;
    std::vector<Expr> starts(sizes.size(), 0);
    starts[static_cast<size_t>(axis)] = from;
    sizes[static_cast<size_t>(axis)] = count;
    return b.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1));
  }
  /// x W^T + the biases of the input and, for the gates below `merged`, of the recurrence: [steps, batch, gates * hidden].
  Value projected(int direction, int merged) {
    return biased(contracted(b_, "tbi,gi->tbg", x_, ofDirection(c_.at(1), direction)), direction,
                  merged);
  }
  Value biased(Value y, int direction, int merged) {
    if (!c_.has(3)) return y;
    const Value bias = ofDirection(c_.at(3), direction);
    const int64_t all = gates_ * hidden_;
    y = b_.map("a + b", {y, rows(b_, bias, 0, 0, all)});
    Value more = rows(b_, bias, 0, all, merged * hidden_);
    if (merged < gates_)
      more = b_.concat({more, b_.splat(b_.dtype(bias), 0, {(gates_ - merged) * hidden_})}, 0);
    return b_.map("a + b", {y, more});
  }
  /// Gate `i` of [batch, gates, hidden].
  static Value gateOf(Builder& b, Value v, int64_t i) {
    return squeeze(b, rows(b, v, 1, i, 1), {1});
  }
  Value recurrentBias(int direction, int gate) {
    if (!c_.has(3)) return b_.splat(b_.dtype(x_), 0, {hidden_});
    return rows(b_, ofDirection(c_.at(3), direction), 0, (gates_ + gate) * hidden_, hidden_);
  }
  Value activate(Builder& b, int direction, size_t which, Value v) const {
    if (!clip_.empty()) v = b.map(fmt::format("min(max(a, -({})), {})", clip_, clip_), {v});
    return b.map(
        activationText(activations_[static_cast<size_t>(direction) * perDirection_ + which]), {v});
  }

  using Step = std::function<std::vector<Value>(Builder&, const std::vector<Value>& states, Value x,
                                                const std::vector<Value>& captured)>;
  /// Runs a direction; past a row's length states stay and the output is 0. Results: final states, then [steps, batch, hidden].
  std::vector<Value> run(int direction, const std::vector<Value>& states, Value x,
                         std::vector<Value> captured, const Step& step) {
    const bool back = reversed(direction), lengths = c_.has(4);
    std::vector<Value> scanned = {x};
    const size_t own = captured.size();
    if (lengths) {
      scanned.push_back(b_.map(var("d0"), {}, {b_.type(x_).shape.at(0)}));
      captured.push_back(b_.convert(c_.at(4), DType::I64));
    }
    const size_t n = states.size();
    return scan(b_, states, scanned, captured,
                lengths ? std::vector<bool>{back, back, back} : std::vector<bool>{back, back},
                [&](Builder& b, const std::vector<Value>& in, const std::vector<Value>& around) {
                  const std::vector<Value> before(in.begin(), in.begin() + static_cast<long>(n));
                  std::vector<Value> next = step(
                      b, before, in[n], {around.begin(), around.begin() + static_cast<long>(own)});
                  Value out = next[0];
                  if (lengths) {
                    const Value live =
                        b.reshape(b.map("a < b", {in[n + 1], around[own]}), {batch(), 1});
                    for (size_t i = 0; i < n; i++)
                      next[i] = b.map("select(a, b, c)", {live, next[i], before[i]});
                    out = b.map("select(a, b, 0)", {live, out});
                  }
                  next.push_back(out);
                  return next;
                });
  }
  /// One result of every direction as one tensor: the sequence on axis 1 of [steps, directions, batch, hidden], a final state on axis 0.
  Value stacked(const std::vector<Value>& parts, bool sequence) {
    std::vector<Value> lifted;
    for (const Value p : parts) lifted.push_back(unsqueeze(b_, p, {sequence ? 1 : 0}));
    const Value all = b_.concat(lifted, sequence ? 1 : 0);
    if (!batchFirst_) return all;
    return b_.transpose(all, sequence ? std::vector<int>{2, 0, 1, 3} : std::vector<int>{1, 0, 2});
  }

 private:
  void readActivations(std::vector<std::string> defaults) {
    perDirection_ = defaults.size();
    std::vector<std::string> names = c_.texts("activations", std::vector<std::string>{});
    if (names.empty())
      for (int d = 0; d < directions_; d++)
        names.insert(names.end(), defaults.begin(), defaults.end());
    if (names.size() != perDirection_ * static_cast<size_t>(directions_))
      userError("{} activations, expected {}", names.size(),
                perDirection_ * static_cast<size_t>(directions_));
    const auto alphas = c_.reals("activation_alpha", std::vector<double>{}),
               betas = c_.reals("activation_beta", std::vector<double>{});
    for (size_t i = 0; i < names.size(); i++) {
      for (char& ch : names[i])
        ch = static_cast<char>(std::tolower(static_cast<unsigned char>(ch)));
      activations_.push_back({names[i], i < alphas.size() ? number(alphas[i]) : "",
                              i < betas.size() ? number(betas[i]) : ""});
    }
  }

  Builder& b_;
  const OpCall& c_;
  int64_t gates_, hidden_;
  int directions_ = 1;
  bool backward_ = false, batchFirst_ = false;
  size_t perDirection_ = 0;
  std::string clip_;
  std::vector<Activation> activations_;
  Value x_;
};

using Row = std::vector<Value>;

const OpDef rnn{
    "RNN", Takes{"f3 =3 =3 =2 i1 =3"}, [](Builder& b, const OpCall& c) -> Values {
      Recurrence r(b, c, 1, {"tanh"});
      Row sequence, last;
      for (int d = 0; d < r.directions(); d++) {
        const auto out =
            r.run(d, {r.initial(5, d)}, r.projected(d, 1), {r.ofDirection(c.at(2), d)},
                  [&](Builder& b, const Row& s, Value x, const Row& w) -> Row {
                    return {r.activate(
                        b, d, 0, b.map("a + b", {x, contracted(b, "bi,gi->bg", s.at(0), w[0])}))};
                  });
        last.push_back(out[0]);
        sequence.push_back(out[1]);
      }
      return {r.stacked(sequence, true), r.stacked(last, false)};
    }};

}  // namespace

Value byGate(Builder& b, Value v, int axis, int64_t gates) {
  std::vector<Expr> shape = b.type(v).shape;
  Expr& all = shape[static_cast<size_t>(axis)];
  const Expr hidden = floorDiv(all, Expr(gates));
  all = gates;
  shape.insert(shape.begin() + axis + 1, hidden);
  return b.reshape(v, shape);
}

/// Gates in the order input, output, forget, cell; peepholes in the order input, output, forget.
Values lstmOf(Builder& b, const OpCall& c, const LstmProducts& products) {
  Recurrence r(b, c, 4, {"sigmoid", "tanh", "tanh"});
  const int64_t h = r.hidden();
  const bool coupled = c.integer("input_forget", 0), peeps = c.has(7);
  Row sequence, lastH, lastC;
  for (int d = 0; d < r.directions(); d++) {
    Row captured = products.captured(r.ofDirection(c.at(2), d), d);
    const size_t own = captured.size();
    if (peeps) captured.push_back(r.ofDirection(c.at(7), d));
    const auto out = r.run(
        d, {r.initial(5, d), r.initial(6, d)},
        r.biased(products.input(b, r.input(), r.ofDirection(c.at(1), d), d), d, 4), captured,
        [&](Builder& b, const Row& s, Value x, const Row& w) -> Row {
          const Value sum = products.state(b, s.at(0), w);
          const Value all = b.map("a + b", {byGate(b, x, 1, 4), sum});
          const auto gate = [&](int64_t i) { return Recurrence::gateOf(b, all, i); };
          const auto peep = [&](Value v, int64_t i, Value cell) {
            return peeps ? b.map("a + b * c", {v, Recurrence::rows(b, w[own], 0, i * h, h), cell})
                         : v;
          };
          const Value in = r.activate(b, d, 0, peep(gate(0), 0, s.at(1)));
          const Value forget =
              coupled ? b.map("1 - a", {in}) : r.activate(b, d, 0, peep(gate(2), 2, s.at(1)));
          const Value cell =
              b.map("a * b + c * d", {forget, s.at(1), in, r.activate(b, d, 1, gate(3))});
          const Value shown = r.activate(b, d, 0, peep(gate(1), 1, cell));
          return {b.map("a * b", {shown, r.activate(b, d, 2, cell)}), cell};
        });
    lastH.push_back(out[0]);
    lastC.push_back(out[1]);
    sequence.push_back(out[2]);
  }
  return {r.stacked(sequence, true), r.stacked(lastH, false), r.stacked(lastC, false)};
}

namespace {

const OpDef lstm{
    "LSTM", Takes{"f3 =3 =3 =2 i1 =3 =3 =2"}, [](Builder& b, const OpCall& c) -> Values {
      return lstmOf(
          b, c,
          {[](Builder& b, Value x, Value w, int) { return contracted(b, "tbi,gi->tbg", x, w); },
           [](Value r, int) -> Row { return {r}; },
           [](Builder& b, Value h, const Row& w) {
             return contracted(b, "bi,ghi->bgh", h, byGate(b, w[0], 0, 4));
           }});
    }};

/// Gates in the order update, reset, hidden.
const OpDef gru{
    "GRU", Takes{"f3 =3 =3 =2 i1 =3"}, [](Builder& b, const OpCall& c) -> Values {
      Recurrence r(b, c, 3, {"sigmoid", "tanh"});
      const int64_t h = r.hidden();
      const bool before = c.integer("linear_before_reset", 0);
      Row sequence, last;
      for (int d = 0; d < r.directions(); d++) {
        const Row captured = {r.ofDirection(c.at(2), d), r.recurrentBias(d, 2)};
        const auto out = r.run(
            d, {r.initial(5, d)}, r.projected(d, 2), captured,
            [&](Builder& b, const Row& s, Value x, const Row& w) -> Row {
              const Value in = byGate(b, x, 1, 3);
              const auto product = [&](Value state, int64_t from, int64_t count) {
                const Value part = Recurrence::rows(b, w[0], 0, from * h, count * h);
                return contracted(b, "bi,ghi->bgh", state, byGate(b, part, 0, count));
              };
              const Value sums = product(s.at(0), 0, before ? 3 : 2);
              const auto gate = [&](int64_t i) {
                return r.activate(
                    b, d, 0,
                    b.map("a + b", {Recurrence::gateOf(b, in, i), Recurrence::gateOf(b, sums, i)}));
              };
              const Value update = gate(0), reset = gate(1);
              Value inner;
              if (before)
                inner = b.map("a * (b + c)", {reset, Recurrence::gateOf(b, sums, 2), w[1]});
              else
                inner = b.map("a + b", {Recurrence::gateOf(
                                            b, product(b.map("a * b", {reset, s.at(0)}), 2, 1), 0),
                                        w[1]});
              const Value candidate =
                  r.activate(b, d, 1, b.map("a + b", {Recurrence::gateOf(b, in, 2), inner}));
              return {b.map("(1 - a) * b + a * c", {update, candidate, s.at(0)})};
            });
        last.push_back(out[0]);
        sequence.push_back(out[1]);
      }
      return {r.stacked(sequence, true), r.stacked(last, false)};
    }};

}  // namespace
}  // namespace tektite
