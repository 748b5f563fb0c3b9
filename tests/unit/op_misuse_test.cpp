// Every operator on what it wasn't made for: any rank and type, too few and too many operands, absurd attributes. It builds a graph that verifies
// and can be interpreted and planned, or says in one line what is wrong: a UserError, never a fault of ours. TEKTITE_FUZZ=N draws each N times,
// TEKTITE_OP=NAME only one operator.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "fusion/fuse.h"
#include "fuzz_seeds.h"
#include "ir/graph_eval.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kMostElements = 20000;  // of what is interpreted

constexpr const char* kIntegers[] = {"K",
                                     "N",
                                     "aggregate_function",
                                     "align_corners",
                                     "allowzero",
                                     "antialias",
                                     "axis",
                                     "batch_axis",
                                     "batch_dims",
                                     "bits",
                                     "block_size",
                                     "blocksize",
                                     "ceil_mode",
                                     "center_point_box",
                                     "channels_last",
                                     "count_include_pad",
                                     "detect_negative",
                                     "detect_positive",
                                     "do_rotary",
                                     "dtype",
                                     "exclude_outside",
                                     "exclusive",
                                     "fmod",
                                     "group",
                                     "hidden_size",
                                     "ignore_index",
                                     "input_forget",
                                     "interleaved",
                                     "inverse",
                                     "is_causal",
                                     "k",
                                     "keepdims",
                                     "kv_num_heads",
                                     "largest",
                                     "layout",
                                     "left_window_size",
                                     "linear_before_reset",
                                     "local_window_size",
                                     "n_supports",
                                     "n_targets",
                                     "noop_with_empty_axes",
                                     "num_groups",
                                     "num_heads",
                                     "num_outputs",
                                     "num_scan_inputs",
                                     "offset_group",
                                     "one_class",
                                     "onesided",
                                     "output_datatype",
                                     "output_dtype",
                                     "output_height",
                                     "output_width",
                                     "p",
                                     "q_num_heads",
                                     "qk_matmul_output_mode",
                                     "reverse",
                                     "right_window_size",
                                     "rotary_embedding_dim",
                                     "sampling_ratio",
                                     "select_last_index",
                                     "size",
                                     "sorted",
                                     "storage_order",
                                     "targets",
                                     "time_axis",
                                     "to",
                                     "training_mode",
                                     "transA",
                                     "transB",
                                     "unidirectional",
                                     "upper",
                                     "value_int"};
constexpr const char* kLists[] = {"axes",
                                  "class_ids",
                                  "classlabels_ints",
                                  "dilations",
                                  "directions",
                                  "kernel_shape",
                                  "leaf_targetids",
                                  "nodes_falseleafs",
                                  "nodes_falsenodeids",
                                  "nodes_featureids",
                                  "nodes_missing_value_tracks_true",
                                  "nodes_nodeids",
                                  "nodes_treeids",
                                  "nodes_trueleafs",
                                  "nodes_truenodeids",
                                  "output_padding",
                                  "output_shape",
                                  "paddings",
                                  "pads",
                                  "perm",
                                  "qkv_hidden_sizes",
                                  "scan_input_axes",
                                  "scan_input_directions",
                                  "scan_output_axes",
                                  "scan_output_directions",
                                  "shape",
                                  "split",
                                  "strides",
                                  "tree_roots",
                                  "value_ints",
                                  "vectors_per_class",
                                  "keys_int64s",
                                  "values_int64s"};
constexpr const char* kReals[] = {"alpha",
                                  "beta",
                                  "bias",
                                  "clip",
                                  "cubic_coeff_a",
                                  "epsilon",
                                  "extrapolation_value",
                                  "gamma",
                                  "max",
                                  "min",
                                  "momentum",
                                  "scale",
                                  "softcap",
                                  "spatial_scale",
                                  "threshold",
                                  "value_float"};
constexpr const char* kRealLists[] = {"activation_alpha",
                                      "activation_beta",
                                      "base_values",
                                      "coefficients",
                                      "imputed_value_floats",
                                      "intercepts",
                                      "kernel_params",
                                      "nodes_values",
                                      "offset",
                                      "prob_a",
                                      "prob_b",
                                      "rho",
                                      "scales",
                                      "support_vectors",
                                      "value_floats",
                                      "leaf_weights",
                                      "class_weights",
                                      "target_weights"};
constexpr std::pair<const char*, const char*> kTexts[] = {
    {"auto_pad", "SAME_UPPER"},
    {"auto_pad", "VALID"},
    {"auto_pad", "nowhere"},
    {"direction", "bidirectional"},
    {"direction", "LEFT"},
    {"equation", "ij,jk->ik"},
    {"equation", "ii->..."},
    {"equation", "->"},
    {"mode", "linear"},
    {"mode", "cubic"},
    {"mode", "reflect"},
    {"mode", "wrap"},
    {"mode", "CRD"},
    {"mode", "avg"},
    {"mode", "?"},
    {"coordinate_transformation_mode", "tf_crop_and_resize"},
    {"nearest_mode", "ceil"},
    {"norm", "L2"},
    {"padding_mode", "reflection"},
    {"reduction", "none"},
    {"reduction", "mul"},
    {"kernel_type", "RBF"},
    {"kernel_type", "POLY"},
    {"post_transform", "SOFTMAX"},
    {"keep_aspect_ratio_policy", "not_larger"},
    {"approximate", "tanh"},
    {"activation", "Relu"},
    {"activation", "x"}};

/// Draws operands and attributes: mostly small numbers, at times absurd ones.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool oneIn(int n) { return below(n) == 0; }

  int64_t integer() {
    static constexpr int64_t absurd[] = {-1,        -7,        INT64_MAX, INT64_MIN,
                                         1LL << 31, 1LL << 40, 9,         1000000};
    return oneIn(4) ? absurd[below(std::size(absurd))] : below(4);
  }
  template <class T, class F>
  std::vector<T> list(F element) {
    std::vector<T> out(static_cast<size_t>(below(6)));
    for (T& e : out) e = element();
    return out;
  }
  double real() {
    static constexpr double some[] = {0, 1, -1, 0.5, 1e30, NAN, INFINITY, -INFINITY};
    return some[below(std::size(some))];
  }

  DType type() {
    static constexpr DType all[] = {DType::F32,  DType::F32, DType::F32, DType::F16, DType::BF16,
                                    DType::F64,  DType::I64, DType::I64, DType::I32, DType::I16,
                                    DType::I8,   DType::U8,  DType::U16, DType::U32, DType::U64,
                                    DType::Bool, DType::U4,  DType::I4};
    return all[below(std::size(all))];
  }
  std::vector<int64_t> shape(int64_t rank) {
    std::vector<int64_t> out;
    for (int64_t a = 0; a < rank; a++) out.push_back(oneIn(8) ? 0 : 1 + below(4));
    return out;
  }

  Value operand(Builder& b, DType t, const std::vector<int64_t>& shape) {
    const TensorType type{t, {shape.begin(), shape.end()}};
    if (!oneIn(3)) return b.input(fmt::format("in{}", b.graph.nodes.size()), type);
    std::vector<double> values(static_cast<size_t>(type.elements()));
    for (double& v : values)
      v = isFloat(t) ? real() : static_cast<double>(oneIn(4) ? integer() : below(3));
    return b.constant(type, Tensor::of(t, shape, values).toConst());
  }

  void operands(Builder& b, OpCall& call) {
    const bool alike = oneIn(2);  // one rank, one shape, one type: what most operators want
    const DType t = type();
    const std::vector<int64_t> common = shape(below(6));
    for (int64_t i = oneIn(10) ? 12 : below(7); i > 0; i--) {
      if (oneIn(10))
        call.in.push_back({});
      else if (alike && !oneIn(4))
        call.in.push_back(operand(b, t, common));
      else
        call.in.push_back(operand(b, oneIn(2) ? t : type(), oneIn(3) ? shape(1) : shape(below(6))));
    }
  }

  /// Operands as the definition takes them; extents mostly 2, so that many fit each other.
  void fitting(Builder& b, OpCall& call, std::string_view words) {
    const auto extents = [&](int64_t rank) {
      std::vector<int64_t> out;
      for (int64_t a = 0; a < rank; a++) out.push_back(oneIn(6) ? below(5) : 2);
      return out;
    };
    static constexpr DType floats[] = {DType::F32, DType::F32, DType::F64, DType::F16, DType::BF16},
                           integers[] = {DType::I64, DType::I64, DType::I32, DType::U8, DType::I8};
    DType first = DType::F32;
    while (!words.empty()) {
      const size_t end = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, end);
      words.remove_prefix(std::min(end + 1, words.size()));
      if (oneIn(5) && !call.in.empty() && words.empty()) continue;
      const bool ranked = word.size() > 1 && word[1] >= '0' && word[1] <= '9';
      const int64_t rank = ranked ? word[1] - '0' + (word.size() > 2 ? below(2) : 0) : below(4);
      const DType t = word[0] == 'f'   ? floats[below(5)]
                      : word[0] == 'i' ? integers[below(5)]
                      : word[0] == 'b' ? DType::Bool
                      : word[0] == '=' ? first
                                       : type();
      if (call.in.empty()) first = t;
      if (oneIn(12))
        call.in.push_back({});
      else
        call.in.push_back(operand(b, t, extents(rank)));
    }
  }

  void attributes(OpCall& call) {
    const int rare = 2 << below(4);
    for (const char* n : kIntegers)
      if (oneIn(rare)) call.attributes[n] = integer();
    for (const char* n : kLists)
      if (oneIn(rare)) call.attributes[n] = list<int64_t>([&] { return integer(); });
    for (const char* n : kReals)
      if (oneIn(rare)) call.attributes[n] = real();
    for (const char* n : kRealLists)
      if (oneIn(rare)) call.attributes[n] = list<double>([&] { return real(); });
    for (const auto& [n, text] : kTexts)
      if (oneIn(rare)) call.attributes[n] = std::string(text);
    if (oneIn(8)) call.attributes["axis"] = std::string("a text");
    if (oneIn(4))
      call.attributes["nodes_modes"] =
          list<std::string>([&] { return std::string(oneIn(2) ? "LEAF" : "BRANCH_LEQ"); });
    if (oneIn(4))
      call.attributes["activations"] =
          list<std::string>([&] { return std::string(oneIn(2) ? "Tanh" : "x"); });
    for (const char* n : {"body", "then_branch", "else_branch"})
      if (!oneIn(4)) call.attributes[n] = body();
  }

 private:
  Body body() {  // hands its inputs on, some of them changed
    Body out;
    for (int64_t i = below(5); i > 0; i--) {
      out.inputs.push_back(fmt::format("x{}", i));
      const std::vector<int64_t> extents = shape(below(3));
      out.inputTypes.push_back({type(), {extents.begin(), extents.end()}});
    }
    const bool shift = oneIn(2);
    out.build = [shift](Builder& b, const std::vector<Value>& in, const std::vector<Value>&) {
      std::vector<Value> out;
      for (const Value v : in)
        out.push_back(shift && isFloat(b.dtype(v)) ? b.map("a + 1", {v}) : v);
      return out;
    };
    return out;
  }
  std::mt19937_64 random_;
};

bool small(const Graph& g) {
  double sum = 0;
  for (const Node& n : g.nodes)
    for (const TensorType& t : n.results) {
      if (!t.isStatic()) return false;
      double size = 1;
      for (const int64_t e : t.extents()) size *= static_cast<double>(e);
      sum += size;
    }
  return sum < kMostElements;
}

void interpretAndPlan(const Graph& g) {
  std::vector<Tensor> in;
  for (const Value v : g.inputs()) {
    const TensorType& t = g.type(v);
    in.push_back(Tensor::of(t.dtype, t.extents(),
                            std::vector<double>(static_cast<size_t>(t.elements()), 1)));
  }
  evaluate(g, in);
  fuse(runPasses(g, {}), findTarget("cpu:avx512"), {});
}

/// One draw; what it does wrong, or "".
std::string misuse(const OpDef& def, uint64_t seed) {
  Draw draw(seed);
  Builder b;
  OpCall call{.op = std::string(def.name), .in = {}, .attributes = {}};
  call.opset = draw.oneIn(2) ? def.since : def.since + 20;
  call.outputs = static_cast<int>(1 + draw.below(3));
  if (!def.takes.words.empty() && !draw.oneIn(3))
    draw.fitting(b, call, def.takes.words);
  else
    draw.operands(b, call);
  draw.attributes(call);
  try {
    b.graph.outputs = buildOp(b, call, def.domain);
    std::erase_if(b.graph.outputs, [](Value v) { return !v; });
    verify(b.graph);
    if (small(b.graph)) interpretAndPlan(b.graph);
  } catch (const UserError& e) {
    const std::string_view message = e.what();
    if (message.empty() || message.find('\n') != message.npos)
      return fmt::format("no line: '{}'", message);
    if (std::getenv("MISUSE_PRINT")) fmt::print("{}: {}\n", def.name, message);
  } catch (const NeedValue&) {
  } catch (const HostLoop&) {
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

TEST(OpMisuse, EveryOperator) {
  const Seeds seeds = fuzzSeeds(60);
  const char* only = std::getenv("TEKTITE_OP");
  for (const OpDef* def : allOpDefs())
    for (uint64_t seed = seeds.first; seed < seeds.last; seed++) {
      if (only && def->name != only) continue;
      const std::string wrong = misuse(*def, seed);
      if (!wrong.empty())
        ADD_FAILURE() << def->domain << "." << def->name << " seed " << seed << ": " << wrong;
    }
}

}  // namespace
}  // namespace tektite
