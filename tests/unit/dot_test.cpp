#include "ir/dot.h"

#include <gtest/gtest.h>

#include <random>

#include "emit_run.h"
#include "ir/builder.h"
#include "ir/graph_eval.h"
#include "ir/kernel_verify.h"
#include "lower/lower.h"
#include "lowered_executor.h"
#include "runtime/array.h"
#include "runtime/compile.h"
#include "runtime/program.h"

namespace tektite {
namespace {

using Integers = std::vector<int64_t>;

int64_t lowest(DType t) { return t == DType::U8 ? 0 : -128; }

/// Numbers of the type, extremes often.
Integers bytesOf(DType type, int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  Integers out;
  for (int64_t i = 0; i < count; i++) {
    const int64_t any = static_cast<int64_t>(engine() % 256);
    out.push_back(lowest(type) + (engine() % 3 ? any : any % 2 * 255));
  }
  return out;
}
template <class T>
std::shared_ptr<ConstData> dataOf(const Integers& values) {
  auto memory = std::make_shared<std::vector<T>>(values.begin(), values.end());
  auto out = std::make_shared<ConstData>();
  out->data = memory->data();
  out->bytes = memory->size() * sizeof(T);
  out->owner = memory;
  return out;
}
std::shared_ptr<ConstData> dataOf(DType type, const Integers& values) {
  return type == DType::U8 ? dataOf<uint8_t>(values) : dataOf<int8_t>(values);
}
Array arrayOf(DType type, std::vector<int64_t> shape, const Integers& values) {
  Array a(type, std::move(shape));
  for (size_t i = 0; i < values.size(); i++)
    storeInteger(type, a.data(), static_cast<int64_t>(i), values[i]);
  return a;
}

/// The outputs of a compiled graph, whole numbers. `dots`: was a dot instruction chosen?
Integers run(const Graph& prepared, const Target& target, const std::vector<Array>& inputs,
             Numerics numerics = Numerics::Ordered, bool* dots = nullptr) {
  CompileOptions options;
  options.target = target;
  options.fusion.numerics = numerics;
  const auto program = compile(prepared, options);
  if (dots) *dots = program->kernels.at(0).text.find("intrin dot") != std::string::npos;
  for (const KernelInfo& k : program->kernels) {
    const KernelModule module = parseKernels(k.text, "kernel");
    EXPECT_EQ(toText(parseKernels(toText(module), "again")), toText(module));
    for (const KernelFault& fault : faultsOf(module, {&target}))
      if (std::string(fault.what()).find("intrin") != std::string::npos)
        ADD_FAILURE() << fault.what() << "\n" << k.text;
  }
  Session session(program, nullptr);
  std::vector<const void*> in;
  for (const Array& a : inputs) in.push_back(a.data());
  Array out(program->outputs[0].dtype, program->outputs[0].extents());
  void* to = out.data();
  session.run(in.data(), &to);
  Integers result;
  for (int64_t i = 0; i < out.elements(); i++)
    result.push_back(isFloat(out.type) ? static_cast<int64_t>(loadFloat(out.type, out.data(), i))
                                       : loadInteger(out.type, out.data(), i));
  return result;
}

struct Product {
  DType x, w;
  int64_t m, k, n;
  int64_t zeroX, zeroW;
  bool constant;  ///< weights; else an input
  std::string text() const {
    return fmt::format("{}[{}x{}] - {} by {}[{}x{}] - {}{}", name(x), m, k, zeroX, name(w), k, n,
                       zeroW, constant ? ", constant" : "");
  }
};

/// (x - zeroX) (w - zeroW), the zero point of x an input.
void checkProduct(const Product& p, unsigned seed) {
  SCOPED_TRACE(p.text());
  const Integers x = bytesOf(p.x, p.m * p.k, seed), w = bytesOf(p.w, p.k * p.n, seed + 1);
  Integers wanted;
  for (int64_t i = 0; i < p.m; i++)
    for (int64_t j = 0; j < p.n; j++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < p.k; k++)
        sum += (x[i * p.k + k] - p.zeroX) * (w[k * p.n + j] - p.zeroW);
      wanted.push_back(static_cast<int32_t>(sum));
    }
  Builder b;
  const Value a = b.input("x", {p.x, {p.m, p.k}}), zero = b.input("zero", {p.x, {}});
  const TensorType weights{p.w, {p.k, p.n}};
  const Value c = p.constant ? b.constant(weights, dataOf(p.w, w), "w") : b.input("w", weights);
  const Value left = b.map("a - b", {b.convert(a, DType::I32), b.convert(zero, DType::I32)});
  const Value right =
      b.map("a - b", {b.convert(c, DType::I32),
                      b.convert(b.splat(p.w, static_cast<double>(p.zeroW)), DType::I32)});
  b.graph.outputs = {b.contract("mk,kn->mn", left, right, DType::I32)};
  std::vector<Array> inputs;
  inputs.push_back(arrayOf(p.x, {p.m, p.k}, x));
  inputs.push_back(arrayOf(p.x, {}, {p.zeroX}));
  if (!p.constant) inputs.push_back(arrayOf(p.w, {p.k, p.n}, w));
  for (const Target& target : runnableTargets()) {
    SCOPED_TRACE(target.name);
    EXPECT_EQ(run(prepareGraph(b.graph, {}, {}), target, inputs), wanted);
  }
}

TEST(Dot, productsAreExactOnEveryMachine) {
  unsigned seed = 1;
  const int64_t sizes[][3] = {{1, 5, 3}, {3, 4, 16}, {7, 50, 70}, {13, 33, 130}};
  for (const auto& [m, k, n] : sizes)
    for (const DType x : {DType::U8, DType::I8})
      for (const DType w : {DType::U8, DType::I8}) {
        seed++;
        const int64_t zeroX = lowest(x) + static_cast<int64_t>(seed * 37 % 256),
                      zeroW = seed % 3 ? lowest(w) + 128 : lowest(w) + 7;
        checkProduct({x, w, m, k, n, zeroX, zeroW, seed % 2 == 0}, seed);
      }
}

/// A convolution with padding: what lies outside counts as the zero point.
TEST(Dot, paddingIsTheZeroPoint) {
  constexpr int64_t kIn = 5, kOut = 18, kSize = 7;
  for (const auto& [known, type, zeroW] : {std::tuple{true, DType::I8, 0},
                                           {false, DType::I8, 0},
                                           {true, DType::U8, 76},
                                           {false, DType::U8, 76}}) {
    const int64_t zero = 77;
    const Integers x = bytesOf(DType::U8, kIn * kSize * kSize, 3),
                   w = bytesOf(type, kOut * kIn * 9, 4);
    Integers wanted;
    for (int64_t o = 0; o < kOut; o++)
      for (int64_t p = 0; p < kSize; p++)
        for (int64_t q = 0; q < kSize; q++) {
          int64_t sum = 0;
          for (int64_t c = 0; c < kIn; c++)
            for (int64_t i = 0; i < 9; i++) {
              const int64_t y = p + i / 3 - 1, z = q + i % 3 - 1;
              if (y >= 0 && z >= 0 && y < kSize && z < kSize)
                sum += (x[(c * kSize + y) * kSize + z] - zero) * (w[(o * kIn + c) * 9 + i] - zeroW);
            }
          wanted.push_back(sum);
        }
    Builder b;
    const Value a = b.input("x", {DType::U8, {1, kIn, kSize, kSize}}),
                z = known ? b.splat(DType::U8, static_cast<double>(zero))
                          : b.input("zero", {DType::U8, {}});
    const Value c = b.constant({type, {kOut, kIn, 3, 3}}, dataOf(type, w), "w");
    const Value weights = b.map(fmt::format("a - {}", zeroW), {b.convert(c, DType::I32)});
    const Value centred = b.map("a - b", {b.convert(a, DType::I32), b.convert(z, DType::I32)});
    const Value windows = b.windows(centred, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {kSize, kSize},
                                    immInteger(DType::I32, 0));
    b.graph.outputs = {b.contract("ncpqij,ocij->nopq", windows, weights, DType::I32)};
    std::vector<Array> inputs;
    inputs.push_back(arrayOf(DType::U8, {1, kIn, kSize, kSize}, x));
    if (!known) inputs.push_back(arrayOf(DType::U8, {}, {zero}));
    for (const Target& target : runnableTargets()) {
      SCOPED_TRACE(target.name);
      EXPECT_EQ(run(prepareGraph(b.graph, {}, {}), target, inputs), wanted);
    }
  }
}

/// Whole numbers of bf16, whose sums are exact: by the instruction in `fast` where the machine has it, else widened.
TEST(Dot, ProductsOfBf16) {
  for (const auto& [m, k, n] : {std::tuple{1, 5, 3}, {7, 50, 70}, {13, 33, 130}})
    for (const bool constant : {true, false}) {
      std::mt19937 engine(static_cast<unsigned>(m));
      const auto numbers = [&](int count) {
        std::vector<double> out;
        for (int i = 0; i < count; i++) out.push_back(static_cast<double>(engine() % 33) - 16);
        return out;
      };
      const auto arrayOf = [](std::vector<int64_t> shape, const std::vector<double>& values) {
        Array a(DType::BF16, std::move(shape));
        for (size_t i = 0; i < values.size(); i++)
          storeFloat(DType::BF16, a.data(), static_cast<int64_t>(i), values[i]);
        return a;
      };
      const std::vector<double> x = numbers(m * k), w = numbers(k * n);
      Integers wanted;
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
          double sum = 0;
          for (int c = 0; c < k; c++)
            sum += x[static_cast<size_t>(i * k + c)] * w[static_cast<size_t>(c * n + j)];
          wanted.push_back(static_cast<int64_t>(sum));
        }
      const Array weights = arrayOf({k, n}, w);
      auto data = std::make_shared<ConstData>();
      data->data = weights.data();
      data->bytes = static_cast<size_t>(k * n) * 2;
      Builder b;
      const Value a = b.input("x", {DType::BF16, {m, k}});
      const TensorType type{DType::BF16, {k, n}};
      const Value c = constant ? b.constant(type, data, "w") : b.input("w", type);
      b.graph.outputs = {b.contract("mk,kn->mn", a, c, DType::F32)};
      std::vector<Array> inputs;
      inputs.push_back(arrayOf({m, k}, x));
      if (!constant) inputs.push_back(arrayOf({k, n}, w));
      for (const Target& target : runnableTargets())
        for (const Numerics mode : {Numerics::Ordered, Numerics::Fast}) {
          SCOPED_TRACE(fmt::format("{} {}x{}x{}", target.name, m, k, n));
          bool dots = false;
          EXPECT_EQ(run(prepareGraph(b.graph, {}, {}), target, inputs, mode, &dots), wanted);
          const bool has = target.features.find("+avx512bf16") != std::string::npos;
          EXPECT_EQ(dots, mode == Numerics::Fast && has);
        }
    }
}

TEST(Dot, aDeclarationSaysWhatItIs) {
  for (const int group : {2, 4})
    for (const int trailing : {0, 2}) {
      const Dot d{DType::U8, DType::I8, group, 8, "l2", "main", trailing};
      const IntrinDef def = declare(d);
      const auto again = dotOf(def);
      ASSERT_TRUE(again);
      EXPECT_EQ(declare(*again).name, def.name);
      EXPECT_EQ(again->rowSpace, "l2");
      const std::string text = toText(KernelModule{{}, {def}, {}});
      EXPECT_EQ(toText(parseKernels(text, "intrin")), text);
      IntrinDef other = def;
      other.body.clear();
      EXPECT_FALSE(dotOf(other));
    }
}

/// A kernel that calls the instruction, by its meaning where a machine lacks it, and in the interpreter.
TEST(Dot, aKernelThatCallsIt) {
  const std::string text =
      toText(KernelModule{{}, {declare({DType::U8, DType::I8, 4, 8, "main", "main", 0})}, {}}) +
      "\nkernel k(a: u8[8], b: i8[2x8x4], out y: i32[8]) {\n"
      "  for t in 1 parallel {\n"
      "    alloc s: i32[8]@reg\n"
      "    for l in 8 vector {\n      s[l] = 5\n    }\n"
      "    for k in 2 serial {\n      intrin dot4_u8_i8_x8(s[0], a[4 * k], b[k, 0, 0])\n    }\n"
      "    for l in 8 vector {\n      y[l] = s[l]\n    }\n"
      "  }\n}\n";
  const KernelModule module = parseKernels(text, "dot");
  const Integers a = bytesOf(DType::U8, 8, 1), b = bytesOf(DType::I8, 64, 2);
  for (const Target& target : runnableTargets()) {
    for (const KernelFault& fault : faultsOf(module, {&target})) ADD_FAILURE() << fault.what();
    TestBuffers buffers;
    buffers["a"] = TestBuffer(DType::U8, 8);
    buffers["b"] = TestBuffer(DType::I8, 64);
    buffers["y"] = TestBuffer(DType::I32, 8);
    for (int i = 0; i < 8; i++) buffers["a"].set(i, static_cast<double>(a[i]));
    for (int i = 0; i < 64; i++) buffers["b"].set(i, static_cast<double>(b[i]));
    runKernel(module, {}, buffers, target, 1);
    for (int l = 0; l < 8; l++) {
      int64_t sum = 5;
      for (int k = 0; k < 8; k++) sum += a[k] * b[k / 4 * 32 + l * 4 + k % 4];
      EXPECT_EQ(buffers["y"].at(l), static_cast<double>(sum)) << target.name << " lane " << l;
    }
  }
}

/// The schedules' kernels in the interpreter of kernels, for machines that needn't be here.
TEST(Dot, theInterpreterAgrees) {
  constexpr int64_t kRows = 5, kDepth = 11, kColumns = 37;
  const Integers x = bytesOf(DType::U8, kRows * kDepth, 1),
                 w = bytesOf(DType::I8, kDepth * kColumns, 2);
  Builder b;
  const Value a = b.input("x", {DType::U8, {kRows, kDepth}});
  const Value c = b.constant({DType::I8, {kDepth, kColumns}}, dataOf(DType::I8, w), "w");
  b.graph.outputs = {b.contract("mk,kn->mn", a, c, DType::I32)};
  const Graph prepared = prepareGraph(b.graph, {}, {});
  for (const char* name : {"cpu:x86-64", "cpu:avx2", "cpu:avx2-vnni", "cpu:avx512-vnni"}) {
    CompileOptions options;
    options.target = findTarget(name);
    options.code = false;
    const auto program = compile(prepared, options);
    ASSERT_EQ(program->kernels.size(), 1u);
    EXPECT_NE(program->kernels[0].text.find("intrin dot"), std::string::npos)
        << program->kernels[0].text;
    for (const Node& n : program->graph.nodes) {
      const Group* g = n.as<Group>();
      if (!g) continue;
      std::map<Value, TestTensor> leaves;
      for (int i = 0; i < static_cast<int>(g->body->nodes.size()); i++) {
        const Node& leaf = g->body->nodes[i];
        if (leaf.as<Input>()) leaves[{i, 0}] = {leaf.results[0], {}, x};
        if (leaf.as<Const>()) leaves[{i, 0}] = {leaf.results[0], {}, w};
      }
      const auto found = runLowered(*g->plan, *g->body, leaves, name);
      for (int64_t i = 0; i < kRows; i++)
        for (int64_t j = 0; j < kColumns; j++) {
          int64_t sum = 0;
          for (int64_t k = 0; k < kDepth; k++) sum += x[i * kDepth + k] * w[k * kColumns + j];
          ASSERT_EQ(found[0].integer[i * kColumns + j], sum) << name << " " << i << " " << j;
        }
    }
  }
}

}  // namespace
}  // namespace tektite
