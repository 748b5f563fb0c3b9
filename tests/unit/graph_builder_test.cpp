#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/dims.h"
#include "support/check.h"

namespace tektite {
namespace {

std::string shapeText(const Builder& b, Value v) { return toText(b.type(v)); }
std::string viewText(const Builder& b, Value v) {
  const View* view = b.graph.node(v).as<View>();
  if (!view) return "no view";
  std::string out;
  for (const Expr& e : view->index) out += (out.empty() ? "" : ", ") + toText(e);
  return out + (view->fill ? " fill=" + toText(view->fill) : "");
}
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "no error";
}

struct GraphBuilder : ::testing::Test {
  Builder b;
  Expr n = var("N"), m = var("M");
  GraphBuilder() {
    b.graph.dims["N"] = {1, 1024};
    b.graph.dims["M"] = {0, 1024};
  }
  Value input(std::vector<Expr> shape, DType t = DType::F32) {
    return b.input("", {t, std::move(shape)});
  }
  std::string reshaped(std::vector<Expr> from, std::vector<Expr> to) {
    const Value v = b.reshape(input(std::move(from)), std::move(to));
    verify(b.graph);
    return viewText(b, v);
  }
  std::string knownText(Value v) {
    const auto known = b.known(v);
    if (!known) return "unknown";
    std::string out;
    for (const Expr& e : *known) out += (out.empty() ? "" : ", ") + toText(e);
    return out;
  }
};

TEST_F(GraphBuilder, ReshapeFactorsIntoSplitsAndMerges) {
  EXPECT_EQ(reshaped({2, 3, 4}, {6, 4}), "d0 // 3, d0 % 3, d1");
  EXPECT_EQ(reshaped({6, 4}, {2, 3, 4}), "d0 * 3 + d1, d2");
  EXPECT_EQ(reshaped({n, m, 384}, {n, m, 12, 32}), "d0, d1, d2 * 32 + d3");
  EXPECT_EQ(reshaped({n, m, 12, 32}, {n, m, 384}), "d0, d1, d2 // 32, d2 % 32");
  EXPECT_EQ(reshaped({n, m, 4}, {n * m, 4}), "d0 // M, d0 % M, d1");
  EXPECT_EQ(reshaped({m * n, 4}, {n, m, 4}), "M * d0 + d1, d2");
  EXPECT_EQ(reshaped({1, n, 1, 5}, {n, 5, 1}), "0, d0, 0, d1");
  EXPECT_EQ(reshaped({0, 4}, {0, 8}), "d0, d1");
  EXPECT_EQ(message([&] { reshaped({n, 4}, {n, 5}); }),
            "reshape of f32[N x 4] to [N x 5]: N * 5 elements, expected N * 4");
}

TEST_F(GraphBuilder, QuotientsOfProducts) {
  const auto q = [](const Expr& a, const Expr& b) {
    const auto e = exactQuotient(a, b);
    return e ? toText(*e) : "none";
  };
  EXPECT_EQ(q(n * m * 384, n * m * 12), "32");
  EXPECT_EQ(q(n * m * 384, 12), "M * N * 32");
  EXPECT_EQ(q((n + 2) * m * 6, n + 2), "M * 6");
  EXPECT_EQ(q(n * 3, m), "none");
  EXPECT_EQ(q(n * 3, 2), "none");
}

TEST_F(GraphBuilder, EqualDimsOfDifferentText) {
  EXPECT_TRUE(sameDim(n - min(1, n), max(n - 1, 0)));
  EXPECT_TRUE(sameDim(floorDiv(n - 1, 2) + 1, floorDiv(n + 1, 2)));
  EXPECT_TRUE(sameDim((n + 1) * (n - 1), n * n - 1));
  EXPECT_FALSE(sameDim(n - min(1, n), max(n - 1, 1)));
  EXPECT_FALSE(sameDim(floorDiv(n, 2), floorDiv(n + 1, 2)));
}

TEST_F(GraphBuilder, IndicesAreProvenInRangeOfNamedDims) {
  const Ranges dims = b.graph.ranges();
  const Expr d0 = var("d0"), d1 = var("d1");
  EXPECT_TRUE(inRange(d0 * m + d1, n * m, {n, m}, dims));
  EXPECT_FALSE(inRange(d0 * m + d1 + 1, n * m, {n, m}, dims));
  EXPECT_TRUE(inRange(d0 * 2 + d1, n * 2 + 1, {n, 3}, dims));
  EXPECT_FALSE(inRange(d0 * 2 + d1, n * 2, {n, 3}, dims));
  EXPECT_TRUE(inRange(-1 * d0 + n - 1, n, {n}, dims));
  EXPECT_TRUE(inRange(d0, n, {min(n, m)}, dims));
  EXPECT_FALSE(inRange(d0, n, {max(n, m)}, dims));
  EXPECT_TRUE(inRange(d0 * 2, n, {floorDiv(n + 1, 2)}, dims));
  EXPECT_FALSE(inRange(d0 * 2 + 1, n, {floorDiv(n + 1, 2)}, dims));
}

TEST_F(GraphBuilder, ViewsOfEveryKind) {
  const Value x = input({2, n, 5});
  EXPECT_EQ(viewText(b, b.transpose(x, {2, 0, 1})), "d1, d2, d0");
  EXPECT_EQ(b.transpose(x, {0, 1, 2}), x);
  EXPECT_EQ(viewText(b, b.broadcast(x, {7, 2, n, 5})), "d1, d2, d3");
  EXPECT_EQ(viewText(b, b.slice(x, {0, 0, 4}, {2, n, 3}, {1, 1, -2})), "d0, d1, d2 * (-2) + 4");
  const Value padded = b.pad(x, {0, 1, 0}, {0, 2, 0}, imm(DType::F32, 0));
  EXPECT_EQ(viewText(b, padded), "d0, d1 - 1, d2 fill=0");
  EXPECT_EQ(shapeText(b, padded), "f32[2 x N + 3 x 5]");
  const Value image = input({1, 2, 5, 5});
  const Value w = b.windows(image, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {3, 3}, imm(DType::F32, 0));
  EXPECT_EQ(viewText(b, w), "d0, d1, d2 * 2 + d4 - 1, d3 * 2 + d5 - 1 fill=0");
  EXPECT_EQ(shapeText(b, w), "f32[1x2x3x3x3x3]");
  const Value inside = b.windows(image, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {3, 3}, imm(DType::F32, 0));
  EXPECT_EQ(viewText(b, inside), "d0, d1, d2 + d4, d3 + d5");
  verify(b.graph);
}

TEST_F(GraphBuilder, TypesAreInferred) {
  const Value x = input({2, n, 5}), bias = input({5}), i = input({5}, DType::I64);
  EXPECT_EQ(shapeText(b, b.map("a + b", {x, bias})), "f32[2 x N x 5]");
  EXPECT_EQ(shapeText(b, b.map("a < b", {x, bias})), "bool[2 x N x 5]");
  EXPECT_EQ(shapeText(b, b.map("f32(a) * b", {i, bias})), "f32[5]");
  EXPECT_EQ(shapeText(b, b.map("d0", {i}, DType::F32)), "f32[5]");
  EXPECT_EQ(shapeText(b, b.reduce("max", x, {-1})), "f32[2 x N x 1]");
  EXPECT_EQ(shapeText(b, b.contract("abc,c->ab", x, bias)), "f32[2 x N]");
  EXPECT_EQ(shapeText(b, b.concat({x, x}, 1)), "f32[2 x N * 2 x 5]");
  verify(b.graph);
  EXPECT_EQ(message([&] { b.map("a + b", {x, input({4})}); }),
            "axis 2: [2 x N x 5] and [4] do not broadcast");
  EXPECT_EQ(message([&] { b.contract("abc,d->ab", x, bias); }), "no error");
  EXPECT_EQ(message([&] { b.contract("abc,b->a", x, bias); }),
            "contract: axis 'b' is 5 in f32[5], expected N");
  EXPECT_EQ(message([&] { b.reduce("max", x, {3}); }), "reduce: axis 3 of a value of rank 3");
}

TEST_F(GraphBuilder, ShapeArithmeticIsKnown) {
  const Value shape = b.fromKnown({n, m, 384}, false);
  const auto at = [&](int64_t i) {
    return b.gather(shape, {b.integers({i})}, {1}, {load("$1", DType::I64, {var("d0")})});
  };
  EXPECT_EQ(knownText(shape), "N, M, 384");
  EXPECT_EQ(knownText(at(1)), "M");
  const Value heads = b.concat({at(0), at(1), b.integers({12}), b.map("a // 12", {at(2)})}, 0);
  EXPECT_EQ(knownText(heads), "N, M, 12, 32");
  EXPECT_EQ(knownText(b.reduce("product", shape, {0})), "M * N * 384");
  EXPECT_EQ(knownText(b.map("select(a == -1, 1, a)", {shape})), "N, M, 384");
  EXPECT_EQ(knownText(b.map("i64(floor(f32(a) * 2))", {at(0)})), "N * 2");
  EXPECT_EQ(knownText(b.map("i64(floor(f32(a) * 0.5))", {at(0)})), "N // 2");
  EXPECT_EQ(knownText(b.convert(b.convert(at(2), DType::F32), DType::I32)), "384");
  EXPECT_EQ(knownText(b.reshape(b.slice(shape, {2}, {1}, {1}), {})), "384");
  EXPECT_EQ(knownText(b.map("max(a, 1)", {at(0)})), "N");
  EXPECT_EQ(knownText(b.map("max(a, 1)", {at(1)})), "max(M, 1)");
  EXPECT_EQ(knownText(input({3}, DType::I64)), "unknown");
  EXPECT_EQ(knownText(b.map("a < 0", {at(0)})), "bool(0)");
  verify(b.graph);
}

TEST_F(GraphBuilder, BindDimsMakesNumbers) {
  const Value x = input({n, m, 4});
  b.graph.outputs = {b.reshape(x, {n * m, 4})};
  const Graph g = bindDims(b.graph, {{"N", 2}, {"M", 3}});
  verify(g);
  EXPECT_EQ(toText(g.type(g.outputs[0])), "f32[6x4]");
  EXPECT_EQ(message([&] { bindDims(b.graph, {{"K", 2}}); }),
            "dim 'K': the graph has no such dim, expected one of M, N");
  EXPECT_EQ(message([&] { bindDims(b.graph, {{"N", 0}}); }), "dim 'N': found 0, expected 1..1024");
}

TEST_F(GraphBuilder, HashIsStructural) {
  const auto build = [](const char* name, double c) {
    Builder b;
    b.origin = name;
    const Value x = b.input(name, {DType::F32, {4}});
    b.graph.outputs = {b.map("a + b", {x, b.splat(DType::F32, c)})};
    return b.graph.hash();
  };
  EXPECT_EQ(build("x", 1), build("y", 1));
  EXPECT_NE(build("x", 1), build("x", 2));
}

}  // namespace
}  // namespace tektite
