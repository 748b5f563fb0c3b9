#include "ops/math/script.h"

#include "ir/expr_text.h"
#include "support/check.h"

namespace tektite {
namespace {

class Script {
 public:
  Script(std::string_view text, const std::vector<std::pair<std::string, DType>>& operands)
      : in_(text, "math") {
    for (const auto& [name, type] : operands) values_[name] = var(name, type);
  }

  Expr run(DType result) {
    for (;;) {
      const bool named = in_.peek(1).text == "=" || in_.peek(1).text == ":";
      if (!named) break;
      const std::string name = in_.name("a name");
      DType type = DType::F32;
      if (in_.accept(":")) {
        const std::string text = in_.name("a type");
        const auto found = dtypeFromName(text);
        TEKTITE_CHECK(found, "no type {}", text);
        type = *found;
      }
      in_.expect("=");
      values_[name] = value(type);
    }
    const Expr e = value(result);
    if (in_.peek().kind != Token::End) in_.fail("the end");
    return e;
  }

 private:
  Expr expression(DType type) {
    const Names names{[&](std::string_view n) -> std::optional<DType> {
                        const auto it = values_.find(std::string(n));
                        return it == values_.end() ? std::nullopt
                                                   : std::optional(it->second.type());
                      },
                      [](std::string_view) { return std::nullopt; }};
    return substitute(parseExpr(in_, names, type), values_);
  }

  Expr value(DType type) {
    if (!in_.at("horner")) return expression(type);
    in_.next();
    in_.expect("(");
    const Expr v = expression(type);
    std::vector<Expr> c;
    while (in_.accept(",")) c.push_back(expression(type));
    in_.expect(")");
    Expr p = c.back();
    for (size_t k = c.size() - 1; k-- > 0;) p = apply(Op::Fma, {p, v, c[k]});
    return p;
  }

  Lexer in_;
  std::unordered_map<std::string, Expr> values_;
};

}  // namespace

Expr parseScript(std::string_view text, const std::vector<std::pair<std::string, DType>>& operands,
                 DType result) {
  return Script(text, operands).run(result);
}

}  // namespace tektite
