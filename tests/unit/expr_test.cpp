#include "ir/expr.h"

#include <gtest/gtest.h>

#include "ir/expr_text.h"
#include "support/check.h"

namespace tektite {
namespace {

Expr parse(std::string_view text, DType expected = DType::I64) {
  Lexer in(text, "test");
  const Names names{[](std::string_view n) -> std::optional<DType> {
                      if (n == "a" || n == "b") return DType::F32;
                      if (n == "c") return DType::Bool;
                      return DType::I64;
                    },
                    [](std::string_view n) -> std::optional<DType> {
                      if (n == "buf") return DType::F32;
                      if (n == "ind") return DType::I64;
                      return std::nullopt;
                    }};
  return parseExpr(in, names, expected);
}

TEST(Expr, TextsRoundTrip) {
  const std::pair<const char*, DType> texts[] = {
      {"d2 * 2 + d4 - 1", DType::I64},
      {"(i + 3) // 4 * 4 % 7", DType::I64},
      {"a * 0.5 + -b", DType::F32},
      {"select(c, buf[i, ind[j] + 1], -inf)", DType::F32},
      {"f32(i // 2 < j)", DType::F32},
      {"i < j & j <= 4 | not(i == j)", DType::Bool},
      {"a - (b - a) - b / (a / b)", DType::F32},
      {"max(a, 0) * exp(-(a + b))", DType::F32},
      {"frombits(bits(a) + 4)", DType::F32},
      {"f32(bf16(a)) - a", DType::F32},
      {"select(f32(1) < 2, a, 1e-05)", DType::F32},
      {"i - j * (-3)", DType::I64},
      {"c & bool(1) == c", DType::Bool}};
  for (const auto& [text, type] : texts) {
    const Expr e = parse(text, type);
    EXPECT_EQ(parse(toText(e), type), e) << text << " -> " << toText(e);
  }
  EXPECT_EQ(toText(parse("d2*2+d4-1")), "d2 * 2 + d4 - 1");
  EXPECT_EQ(toText(parse("a * 0.5 + -b", DType::F32)), "a * 0.5 + -b");
}

TEST(Expr, IntegersFoldAndFloatsStay) {
  EXPECT_EQ(toText(parse("i * 1 + 0 * j + 2 * 3")), "i + 6");
  EXPECT_EQ(toText(parse("-7 // 2 + -7 % 2")), "-3");
  EXPECT_EQ(toText(parse("a * 1 + 0", DType::F32)), "a * 1 + 0");
}

TEST(Expr, SubstitutionIsOfAllVariablesAtOnce) {
  EXPECT_EQ(toText(substitute(parse("i + 1"), {{"i", parse("i - 1")}})), "i");
  EXPECT_EQ(toText(substitute(parse("i * j"), {{"i", var("j")}, {"j", var("i")}})), "j * i");
}

TEST(Expr, WhatFoldsToAPartIsReplacedOnce) {
  const auto longer = [](const Expr& now) -> Expr {
    const Var* v = now.as<Var>();
    return !v ? Expr() : v->name == "z" ? Expr(0) : var(v->name + v->name);
  };
  EXPECT_EQ(toText(rewrite(parse("i + z"), longer)), "ii");
  EXPECT_EQ(toText(rewrite(parse("i + j"), longer)), "ii + jj");
}

TEST(Expr, ErrorsNameThePlace) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      parse(text);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message("i +"), "test:1:4: expected an expression, found the end");
  EXPECT_EQ(message("a + i"),
            "test:1:3: 'add' doesn't take (f32, i64), expected numbers of one type");
  EXPECT_EQ(message("nosuch(i)"), "test:1:1: unknown function 'nosuch'");
  EXPECT_EQ(message("max(i)"), "test:1:1: 'max' takes 2 arguments, found 1");
}

}  // namespace
}  // namespace tektite
