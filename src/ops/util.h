#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"

namespace tektite {

/// What several operator definitions share.

std::string number(double);  ///< as scalar text says it: shortest digits that read back; inf, nan
DType dtypeOfNumber(
    int64_t
        onnxType);  ///< of TensorProto's numbering; UserError where there is no such element type here
int64_t numberOfDtype(DType);
/// A negative axis counts from the end. UserError: out of range.
int axisOf(int64_t axis, int rank);
std::vector<int> axesOf(const std::vector<int64_t>& axes, int rank);
std::vector<int> axisRange(int from, int to);

/// The constant numbers of a value that is a constant (or known as shape arithmetic): floats or integers. Nothing otherwise.
std::optional<std::vector<double>> numbersOf(const Builder&, Value);
std::optional<std::vector<int64_t>> integersOf(const Builder&, Value);
std::optional<double> scalarOf(const Builder&, Value);  ///< of a constant of one element
/// As dim expressions; NeedValue where it isn't known: `what` is for the message ("the shape").
[[noreturn]] void notOne(size_t elements);
std::vector<Expr> needKnown(const Builder&, Value, std::string_view what);
std::vector<int64_t> needIntegers(const Builder&, Value, std::string_view what);
std::vector<double> needNumbers(const Builder&, Value, std::string_view what);
template <class T>
T onlyOf(const std::vector<T>& all) {  ///< UserError: not one
  if (all.size() != 1) notOne(all.size());
  return all[0];
}
double needScalar(const Builder&, Value, std::string_view what);
bool knownNonNegative(const Builder&, Value);
bool isData(const Builder&, Value);  ///< neither constant nor shape arithmetic: a run tells
/// An input that used to be an attribute: the input where there is one, else the attribute; nothing where neither is given.
std::optional<std::vector<int64_t>> inputOrAttribute(const Builder&, const OpCall&, size_t input,
                                                     std::string_view attribute);

/// The shape of a value; UserError where it has another rank, or fewer axes: `what` is for the message ("the data").
const std::vector<Expr>& shapeOf(const Builder&, Value, int rank, std::string_view what);
const std::vector<Expr>& shapeFrom(const Builder&, Value, int leastRank, std::string_view what);
void needFloat(const Builder&, Value, std::string_view what);    ///< UserError: of another type
void needInteger(const Builder&, Value, std::string_view what);  ///< not bool
void needNumber(const Builder&, Value, std::string_view what);   ///< anything but bool
void needPositive(const std::vector<int64_t>&, std::string_view what);

Expr simplified(const Builder&, const Expr&);  ///< under the ranges of the named dims
int64_t needStatic(const Expr& extent, std::string_view what);
Expr lastExtent(const Builder&, Value);  ///< UserError: of a scalar
Expr productOf(const std::vector<Expr>&);
/// total / part where that is exact by the factors of both; nothing otherwise.
std::optional<Expr> divideFactors(const std::vector<Expr>& total, const std::vector<Expr>& part);
/// A constant of these numbers, rounded to the type.
Value constantOf(Builder&, DType, const std::vector<double>& values, std::vector<Expr> shape);
std::vector<Expr> coordinates(int rank);  ///< d0, d1, ...
Expr indexLoad(const Builder&, int operand, Value indices,
               std::vector<Expr> at);  ///< $operand[at] as i64

Value squeeze(Builder&, Value, const std::vector<int>& axes);
Value unsqueeze(Builder&, Value, const std::vector<int>& axes);  ///< axes of the result
/// [C] as [1, C, 1, ...] of this rank.
Value alongAxis(Builder&, Value, int axis, int rank);
/// Sum over the axes divided by the number of elements; axes stay as 1.
Value meanOver(Builder&, Value, const std::vector<int>& axes);
/// f32 where the type is f16 or bf16, else the type itself: what sums are held in.
DType accumulatorOf(DType);
/// A contraction in the type of its operands, summed in their accumulator.
Value contracted(Builder&, std::string_view spec, Value x, Value y);
/// [rows]: of each row of scores the label of the largest, the first of equals.
Value labelOf(Builder&, Value scores, const std::vector<int64_t>& labels);
/// A classifier's labels: `numbers` is the attribute that lists them. Labels that are texts have no element type here: their places in the
/// list `classlabels_strings` stand for them.
std::vector<int64_t> labelsOf(const OpCall&, std::string_view numbers);
Expr lowestOf(DType);  ///< -inf, or the type's least number
Expr highestOf(DType);

}  // namespace tektite
