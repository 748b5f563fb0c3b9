#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/builder.h"

namespace tektite {

/// A graph attribute (a branch, a loop's body): `build` adds its nodes to any builder, given its inputs and the values it
/// reads from around it (`captured`, in the calling builder), and returns its outputs.
struct Body {
  std::vector<std::string> inputs;
  std::vector<TensorType> inputTypes;  ///< rank 0, bool where the model doesn't say
  std::vector<Value> captured;
  std::function<std::vector<Value>(Builder&, const std::vector<Value>& inputs,
                                   const std::vector<Value>& captured)>
      build;
};
struct TensorAttribute {
  TensorType type;
  std::shared_ptr<const ConstData> data;
};
using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, TensorAttribute, Body>;
/// "an integer", "a list of numbers", ...
std::string_view kindOf(const Attribute&);

/// One use of an operator. Every accessor that finds something of the wrong kind is a UserError that names the attribute.
struct OpCall {
  std::string op;
  std::vector<Value> in;  ///< an omitted optional input is an empty Value
  int outputs = 1;        ///< how many results are wanted
  int opset = 23;
  std::map<std::string, Attribute> attributes;

  bool has(size_t input) const { return input < in.size() && in[input]; }
  Value at(size_t input) const;  ///< a required input
  Value optional(size_t input) const { return has(input) ? in[input] : Value{}; }
  bool given(std::string_view attribute) const {
    return attributes.count(std::string(attribute)) != 0;
  }
  int64_t integer(std::string_view attribute, std::optional<int64_t> otherwise = {}) const;
  double real(std::string_view attribute, std::optional<double> otherwise = {}) const;
  std::string text(std::string_view attribute, std::optional<std::string> otherwise = {}) const;
  std::vector<int64_t> integers(std::string_view attribute,
                                std::optional<std::vector<int64_t>> otherwise = {}) const;
  std::vector<double> reals(std::string_view attribute,
                            std::optional<std::vector<double>> otherwise = {}) const;
  std::vector<std::string> texts(std::string_view attribute,
                                 std::optional<std::vector<std::string>> otherwise = {}) const;
  const TensorAttribute& tensor(std::string_view attribute) const;
  const Body& body(std::string_view attribute) const;

 private:
  const Attribute* find(std::string_view attribute, bool required) const;
};

/// What an operator means, in terms of the Builder. `Values` lets a definition return one value or several.
struct Values : std::vector<Value> {
  Values(Value v) : std::vector<Value>{v} {}
  Values(std::vector<Value> v) : std::vector<Value>(std::move(v)) {}
  Values(std::initializer_list<Value> v) : std::vector<Value>(v) {}
};
using OpFunction = std::function<Values(Builder&, const OpCall&)>;

/// A definition that can't go on before it knows what a value holds throws this: an importer may end a part of the model there and go
/// on when a run has told it.
struct NeedValue {
  Value value;
  std::string what;         ///< "the shape"
  std::vector<Value> keep;  ///< what `then` wants beside it
  /// Goes on in another builder, where `value` is a constant; none: the definition starts again, its operand a constant.
  std::function<Values(Builder&, Value value, const std::vector<Value>& keep)> then;
  std::string refusal() const;  ///< why a model that may not end here is refused
};
/// And this, where only the host can run a loop: steps or shapes depend on data. `body` is the attribute with its graph.
struct HostLoop {
  std::string body, what;
  bool counted =
      true;  ///< the body's first inputs are iteration and condition, its first output the condition
  Value trips, condition;              ///< no value: no limit, true
  std::vector<Value> states, scanned;  ///< one step for each slice along axis 0 of the scanned
  std::vector<bool> reverse;  ///< of scanned operands, then of stacked results; may be shorter
  std::function<Values(Builder&, const std::vector<Value>& results)>
      then;  ///< none: the results as they are
};

/// What an operator takes, one word an operand: `f` floats, `i` integers, `n` numbers, `b` bool, `*` anything, `=` the type of the first;
/// then its rank, if it matters: `3`, `3-5`, `3+`. `...` behind the last word: any number of these. Operands may be left out here, not
/// added; a definition that needs one says so by OpCall::at. "f3+ f3+ f1"
/// `F`, `N` in front: as `f`, `n`, and halves (f16, bf16) are computed in f32: the definition sees operands of that type converted, and
/// its f32 results are rounded once. For operators of several steps, whose sums and squares would not fit.
struct Takes {
  std::string_view words;
};
/// UserError: an operand that isn't so ("input 1 is f32[3], expected integers of rank 2").
void checkOperands(const Builder&, const OpCall&, Takes);
/// The type whose operands a call computes in f32, by `F` and `N`.
std::optional<DType> computedWide(const Builder&, const OpCall&, Takes);

/// An operator's definition from a version of its operator set on, until a later one of the same name. Registers itself; the registry
/// holds pointers, so a definition is an object of namespace scope.
struct OpDef {
  std::string_view name;
  OpFunction build;
  int since;
  std::string_view domain;
  std::string_view scalar;  ///< its scalar text, where it is elementwise
  Takes takes;              ///< "": anything, until the definition says no

  OpDef(std::string_view name, OpFunction build, int since = 1, std::string_view domain = "");
  OpDef(std::string_view name, Takes takes, OpFunction build, int since = 1,
        std::string_view domain = "");
  /// Elementwise: scalar text over the operands a, b, c, ...
  OpDef(std::string_view name, const char* text, int since = 1, std::string_view domain = "");
  OpDef(std::string_view name, Takes takes, const char* text, int since = 1,
        std::string_view domain = "");
  OpDef(const OpDef&) = delete;
};

/// The definition for an operator set's version; null where there is none. The domain "ai.onnx" is "".
const OpDef* findOp(std::string_view domain, std::string_view name, int opset);
const OpDef& needOp(std::string_view domain, std::string_view name,
                    int opset);         ///< UserError: an unsupported operator
std::vector<const OpDef*> allOpDefs();  ///< by domain, name, version
/// Builds the call: finds the definition, checks the number of results. UserError: an unsupported operator, or what its definition says.
std::vector<Value> buildOp(Builder&, const OpCall&, std::string_view domain = "");
/// The table of supported operators as Markdown.
std::string opsMarkdown();

}  // namespace tektite
