#include "ir/combine_text.h"

#include <fmt/format.h>

#include "ir/expr_text.h"

namespace tektite {
namespace {

using States = std::vector<std::pair<std::string, DType>>;

States states(Lexer& in, const States& others) {
  States out;
  const auto bound = [&](const std::string& name) {
    for (const States* list : {&others, static_cast<const States*>(&out)})
      for (const auto& [other, type] : *list)
        if (other == name) return true;
    return false;
  };
  do {
    const Token t = in.peek();
    const std::string name = in.name("a state's name");
    if (dtypeFromName(name) || name == "inf" || name == "nan")
      in.failAt(t, fmt::format("expected a state's name, found the reserved word '{}'", name));
    if (bound(name)) in.failAt(t, fmt::format("'{}' is bound twice", name));
    in.expect(":");
    out.emplace_back(name, parseDType(in));
  } while (in.accept(","));
  return out;
}

std::vector<Expr> values(Lexer& in, const Names& names, const std::vector<DType>& types) {
  std::vector<Expr> out;
  for (DType type : types) {
    if (!out.empty()) in.expect(",");
    out.push_back(parseExpr(in, names, type));
  }
  return out;
}

}  // namespace

Combine parseCombine(Lexer& in) {
  Combine c;
  in.expect("combine");
  const Token t = in.peek();
  c.name = in.name("a combine's name");
  if (isBuiltinCombine(c.name)) in.failAt(t, fmt::format("'{}' is declared twice", c.name));
  in.expect("(");
  States all = states(in, {});
  in.expect(";");
  const Token right = in.peek();
  const States second = states(in, all);
  in.expect(")");
  in.expect("=");
  for (const auto& [name, type] : all) {
    c.left.push_back(name);
    c.types.push_back(type);
  }
  std::vector<DType> types;
  for (const auto& [name, type] : second) {
    c.right.push_back(name);
    types.push_back(type);
  }
  if (types != c.types) in.failAt(right, "the two states differ in their types");
  all.insert(all.end(), second.begin(), second.end());
  const Names none{[](std::string_view) { return std::nullopt; },
                   [](std::string_view) { return std::nullopt; }};
  Names names = none;
  names.variable = [&](std::string_view n) -> std::optional<DType> {
    for (const auto& [name, type] : all)
      if (name == n) return type;
    return std::nullopt;
  };
  c.result = values(in, names, c.types);
  in.expect("identity");
  c.identity = values(in, none, c.types);
  return c;
}

std::string toText(const Combine& c) {
  const auto states = [&](const std::vector<std::string>& names) {
    std::string out;
    for (size_t i = 0; i < names.size(); i++)
      out += fmt::format("{}{}: {}", i ? ", " : "", names[i], name(c.types[i]));
    return out;
  };
  const auto list = [](const std::vector<Expr>& exprs, std::string_view separator) {
    std::string out;
    for (const Expr& e : exprs) out += (out.empty() ? "" : std::string(separator)) + toText(e);
    return out;
  };
  return fmt::format("combine {}({}; {}) =\n    {}\n    identity {}\n", c.name, states(c.left),
                     states(c.right), list(c.result, ",\n    "), list(c.identity, ", "));
}

}  // namespace tektite
