#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// Tektite: a kernel-fusion compiler for tensor programs.
///
///   const tektite::Model model = tektite::Model::load("model.onnx");   // or built with a Network, below
///   tektite::Executable program = model.compile();
///   program.run({input}, {output});                                    // pointers to the caller's buffers
///   std::puts(program.explain().c_str());
///
/// Wrong input is a std::runtime_error whose message is one line: the place, what was found, what was expected. Nothing here
/// prints or ends the process. Handles are cheap to copy; copies mean the same thing.
namespace tektite {
inline namespace api {

/// Element types. In memory bool and the 4-bit types take one byte each.
enum class Type : uint8_t {
  Bool,
  I4,
  U4,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64
};

/// An extent: a number, or a named dim that a run's inputs decide.
struct Dim {
  Dim(int64_t number) : number(number) {}
  Dim(int number) : number(number) {}
  Dim(std::string name) : name(std::move(name)) {}
  Dim(const char* name) : name(name) {}
  int64_t number = -1;
  std::string name;  ///< "" where it is a number
  friend bool operator==(const Dim&, const Dim&) = default;
};
using Shape = std::vector<Dim>;

/// A named tensor that goes into a model or comes out of it. An extent that is neither a number nor a plain name has its text as name.
struct Port {
  std::string name;
  Type type;
  Shape shape;
};

/// How a model is compiled.
struct Settings {
  enum class Numerics : uint8_t {
    Strict,   ///< the unfused program's bits
    Ordered,  ///< multiply-adds are fused and sums taken tile by tile; the same bits on every run, for any number of threads
    Fast      ///< algebraic rewrites too
  };
  std::string target = "host";  ///< a preset or a target file
  int threads = 0;              ///< of a run; 0: all cores
  bool fuse = true;             ///< false: one kernel for each node of the model
  Numerics numerics = Numerics::Ordered;
  /// Pairs of names of the model's nodes: never in one kernel ("*": with no other), or in one whatever it costs. Error: no such node, or
  /// a pair that no kernel can hold.
  std::vector<std::pair<std::string, std::string>> cut, force;
  /// Let the graph interpreter execute what can't be a kernel; explain() names each such node and its cost. Otherwise it's an error.
  bool allowFallback = false;
  std::map<std::string, int64_t> dims;  ///< numbers for named dims that no input's shape decides
  bool cache = true;                    ///< keep compiled code on disk
  std::string cacheFolder;  ///< "": $TEKTITE_CACHE, $XDG_CACHE_HOME/tektite or ~/.cache/tektite
  int kept = 8;             ///< compiled programs that are kept for different extents of named dims
};

/// What a compiled model does, in numbers. "Unfused": the same with one kernel for each node.
struct Summary {
  int64_t launches, launchesUnfused;
  int64_t bytes, bytesUnfused,
      bytesMinimum;  ///< main-memory traffic of a run, planned; at least: inputs, constants and outputs once
  int64_t peakBytes, peakBytesUnfused;  ///< of intermediate values
  int fallbacks;                        ///< nodes that the graph interpreter executes
  int compilations;  ///< programs compiled so far: one for each set of extents, and for each part of a model in parts
};

/// An output with memory of its own: row-major.
struct Result {
  Type type;
  std::vector<int64_t> shape;
  std::shared_ptr<const void> data;
};

struct ExecutableState;

/// A compiled model. Not for use by several threads at once.
class Executable {
 public:
  /// Runs on buffers of the caller, one pointer for each input and output in the model's order, row-major; fastest where they are
  /// aligned to 64 bytes. For models without named dims, or with those of Settings::dims.
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs);
  /// The same for inputs of these shapes; compiles where they are new.
  void run(const std::vector<const void*>& inputs,
           const std::vector<std::vector<int64_t>>& inputShapes, const std::vector<void*>& outputs);
  /// The same for every model, also for those whose outputs have shapes that only a run tells: it is compiled part by part while it
  /// runs, and again for what is new in shapes or in elements that decide shapes.
  std::vector<Result> results(const std::vector<const void*>& inputs,
                              const std::vector<std::vector<int64_t>>& inputShapes);
  /// The shapes of the outputs for inputs of these shapes; compiles where they are new. Not for outputs whose shapes depend on data.
  std::vector<std::vector<int64_t>> outputShapes(
      const std::vector<std::vector<int64_t>>& inputShapes);

  // About the program that was used last (or for Settings::dims, where none was)
  Summary summary() const;
  std::string explain() const;  ///< kernels, what each moves, and the verdict on every edge
  std::string explainJson() const;

 private:
  friend class Model;
  std::shared_ptr<ExecutableState> state_;
};

/// A tensor program: loaded, or built with a Network. Immutable.
class Model {
 public:
  static Model load(const std::string& path);  ///< `.onnx`, or `.tk` with a graph's text
  static Model parse(std::string_view graphText);
  std::vector<Port> inputs() const;
  std::vector<Port> outputs() const;
  std::string text()
      const;  ///< the graph, as parse() reads it; a model whose shapes depend on data is none
  Executable compile(const Settings& settings = {}) const;

 private:
  friend class Network;
  friend struct Access;
  struct State;
  std::shared_ptr<const State> state_;
};

// ---- Building a model

class Network;
struct NetworkState;

/// A value of a network under construction. Operators broadcast as numpy's do. Softmax of the last axis:
///   Tensor e = exp(x - amax(x, {-1})), y = e / sum(e, {-1});
class Tensor {
 public:
  Type type() const;
  Shape shape() const;
  int rank() const { return static_cast<int>(shape().size()); }

 private:
  friend class Network;
  friend struct Access;
  std::shared_ptr<NetworkState> network_;
  int node_ = -1, result_ = 0;
};

class Network {
 public:
  Network();
  Tensor input(const std::string& name, Type type, const Shape& shape);
  /// Copies the elements: row-major, of a shape of numbers.
  Tensor constant(Type type, const Shape& shape, const void* elements);
  Tensor constant(const Shape& shape, const std::vector<float>& elements);
  /// One number in every element.
  Tensor fill(Type type, double value, const Shape& shape = {});
  void output(const std::string& name, const Tensor& value);
  Model model() const;

 private:
  std::shared_ptr<NetworkState> state_;
};

/// Elementwise, as scalar text: operands are a, b, c, ... and coordinates d0, d1, ...
///   map("select(a < 0, b * a, a)", {x, slope})
Tensor map(std::string_view text, const std::vector<Tensor>& operands);

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, double b);
Tensor operator-(const Tensor& a, double b);
Tensor operator*(const Tensor& a, double b);
Tensor operator/(const Tensor& a, double b);
Tensor operator+(double a, const Tensor& b);
Tensor operator-(double a, const Tensor& b);
Tensor operator*(double a, const Tensor& b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& a);
Tensor max(const Tensor& a, const Tensor& b);  ///< NaN where either is
Tensor min(const Tensor& a, const Tensor& b);
Tensor max(const Tensor& a, double b);
Tensor min(const Tensor& a, double b);
Tensor exp(const Tensor& a);
Tensor log(const Tensor& a);
Tensor sqrt(const Tensor& a);
Tensor tanh(const Tensor& a);
Tensor erf(const Tensor& a);
Tensor sigmoid(const Tensor& a);
Tensor convert(const Tensor& a, Type type);

// Reductions: the axes stay, with extent 1; negative ones count from the end.
Tensor sum(const Tensor& a, const std::vector<int>& axes);
Tensor mean(const Tensor& a, const std::vector<int>& axes);
Tensor amax(const Tensor& a, const std::vector<int>& axes);
Tensor amin(const Tensor& a, const std::vector<int>& axes);

/// A sum of products over labels, as einsum writes it: contract("bij,bjk->bik", a, b).
Tensor contract(std::string_view labels, const Tensor& a, const Tensor& b);
/// Matrices in the last two axes; leading axes are equal, or missing in one of them.
inline Tensor matmul(const Tensor& a, const Tensor& b) {
  const auto leading = [](const Tensor& t) {
    return static_cast<size_t>(t.rank() > 2 ? t.rank() - 2 : 0);
  };
  const std::string batch =
      std::string("abcdefgh").substr(0, leading(a) > leading(b) ? leading(a) : leading(b));
  const auto of = [&](const Tensor& t) { return batch.substr(batch.size() - leading(t)); };
  return contract(of(a) + "xy," + of(b) + "yz->" + batch + "xz", a, b);
}

// Movement of data
Tensor transpose(const Tensor& a, const std::vector<int>& permutation);
Tensor reshape(const Tensor& a, const Shape& shape);
Tensor broadcast(const Tensor& a, const Shape& shape);
Tensor slice(const Tensor& a, const std::vector<int64_t>& starts,
             const std::vector<int64_t>& sizes);
Tensor concat(const std::vector<Tensor>& parts, int axis);

}  // namespace api
}  // namespace tektite
