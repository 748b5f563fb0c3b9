#include "ir/expr_text.h"

#include <cmath>
#include <cstdlib>

#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

/// What the arguments of an op are to be.
std::string_view wanted(TypeRule rule) {
  switch (rule) {
    case TypeRule::Num: return "numbers of one type";
    case TypeRule::Flt: return "floats of one type";
    case TypeRule::Int: return "integers of one type";
    case TypeRule::Bit: return "bools, or integers of one type";
    case TypeRule::Cmp: return "one type";
    case TypeRule::Sel: return "a bool and two of one type";
    case TypeRule::Tst: return "a float";
    case TypeRule::ToBits: return "f16, f32 or f64";
    case TypeRule::FromBits: return "i16, i32 or i64";
  }
  return "";
}

// ---- printing

std::string number(const Imm& i, DType t) {
  if (!isFloat(t))
    return t == DType::U64 ? fmt::format("{}", static_cast<uint64_t>(i.integer))
                           : fmt::format("{}", i.integer);
  if (std::isnan(i.real)) return "nan";
  if (std::isinf(i.real)) return i.real < 0 ? "-inf" : "inf";
  return t == DType::F64 ? fmt::format("{}", i.real)
                         : fmt::format("{}", static_cast<float>(i.real));
}

/// Does the text of `e` say its type without help from around it?
bool saysType(const Expr& e) {
  if (const Imm* i = e.as<Imm>()) return e.type() == DType::Bool && i;
  const Apply* a = e.as<Apply>();
  if (!a) return true;
  switch (info(a->op).rule) {
    case TypeRule::Cmp:
    case TypeRule::Tst:
    case TypeRule::ToBits:
    case TypeRule::FromBits: return true;
    case TypeRule::Sel: return saysType(a->args[1]) || saysType(a->args[2]);
    default:
      for (const Expr& x : a->args)
        if (saysType(x)) return true;
      return false;
  }
}

class Printer {
 public:
  std::string print(const Expr& e, int outer, bool typed) {
    return std::visit(overloaded{[&](const Imm& i) {
                                   const std::string text = number(i, e.type());
                                   if (typed || e.type() == DType::Bool)
                                     return fmt::format("{}({})", name(e.type()), text);
                                   return outer > 5 && text[0] == '-' ? "(" + text + ")" : text;
                                 },
                                 [&](const Var& v) { return v.name; },
                                 [&](const Load& l) {
                                   return l.index.empty() ? l.buffer
                                                          : fmt::format("{}[{}]", l.buffer,
                                                                        list(l.index, false));
                                 },
                                 [&](const Cast& c) {
                                   return fmt::format("{}({})", name(e.type()),
                                                      print(c.arg, 0, !saysType(c.arg)));
                                 },
                                 [&](const Apply& a) { return application(a, e, outer, typed); }},
                      e->kind);
  }

 private:
  std::string list(const std::vector<Expr>& args, bool typeFirst) {
    std::string out;
    for (const Expr& x : args) {
      out += (out.empty() ? "" : ", ") + print(x, 0, typeFirst);
      typeFirst = false;
    }
    return out;
  }
  std::string application(const Apply& a, const Expr& e, int outer, bool typed) {
    const OpInfo& i = info(a.op);
    const bool needs = i.rule == TypeRule::Cmp || i.rule == TypeRule::Tst ||
                       i.rule == TypeRule::ToBits || i.rule == TypeRule::FromBits;
    bool lone = typed;  // must an argument say the type?
    if (needs) {
      lone = true;
      for (const Expr& x : a.args) lone = lone && !saysType(x);
    }
    if (a.op == Op::Neg) {
      const std::string text = "-" + print(a.args[0], 9, lone);
      return outer > 5 ? "(" + text + ")" : text;
    }
    if (i.infix.empty()) {
      if (a.op != Op::Select) return fmt::format("{}({})", i.name, list(a.args, lone));
      return fmt::format("select({}, {}, {})", print(a.args[0], 0, false),
                         print(a.args[1], 0, lone), print(a.args[2], 0, false));
    }
    std::string sign(i.infix), right;
    const auto constant = asInteger(a.args[1]);
    if (a.op == Op::Add && constant && *constant < 0 && isSigned(e.type()) &&
        *constant != INT64_MIN) {
      sign = "-";
      right = fmt::format("{}", -*constant);
    } else {
      right = print(a.args[1], i.precedence + 1, false);
    }
    const int leftPrecedence =
        i.rule == TypeRule::Cmp ? i.precedence + 1 : i.precedence;  // comparisons don't chain
    const std::string text =
        fmt::format("{} {} {}", print(a.args[0], leftPrecedence, lone), sign, right);
    return i.precedence < outer ? "(" + text + ")" : text;
  }
};

// ---- parsing: first a tree, then types

struct Tree {
  enum Kind { Number, Typed, Convert, Apply_ } kind;
  Token token;
  double real = 0;
  int64_t integer = 0;
  bool whole = false;  // an integer literal
  Expr typed;          // Typed
  DType to{};          // Convert
  Op op{};
  std::vector<Tree> args;
};

class Parser {
 public:
  Parser(Lexer& in, const Names& names) : in_(in), names_(names) {}

  Tree binary(int level) {
    Tree left = unary();
    for (;;) {
      const OpInfo* found = nullptr;
      if (in_.peek().kind == Token::Sign)
        for (const OpInfo& i : allOps())
          if (!i.infix.empty() && i.infix == in_.peek().text && i.precedence >= level) found = &i;
      if (!found) return left;
      Tree t{Tree::Apply_, in_.next()};
      t.op = found->op;
      t.args.push_back(std::move(left));
      t.args.push_back(binary(found->precedence + 1));
      left = std::move(t);
    }
  }

  std::optional<DType> typeOf(const Tree& t) {
    switch (t.kind) {
      case Tree::Number: return std::nullopt;
      case Tree::Typed: return t.typed.type();
      case Tree::Convert: return t.to;
      case Tree::Apply_: break;
    }
    const OpInfo& i = info(t.op);
    switch (i.rule) {
      case TypeRule::Cmp:
      case TypeRule::Tst: return DType::Bool;
      case TypeRule::Sel: return either(t.args, 1);
      case TypeRule::ToBits:
      case TypeRule::FromBits: {
        const auto from = typeOf(t.args[0]);
        return from ? resultType(t.op, std::vector{*from}) : std::nullopt;
      }
      default: return either(t.args, 0);
    }
  }

  Expr build(const Tree& t, DType expected) {
    switch (t.kind) {
      case Tree::Number:
        if (!isFloat(expected) && !t.whole)
          in_.failAt(t.token, fmt::format("expected {}, found '{}'", name(expected), t.token.text));
        return t.whole && !isFloat(expected) ? immInteger(expected, t.integer)
                                             : imm(expected, t.real);
      case Tree::Typed: return t.typed;
      case Tree::Convert: {
        const auto from = typeOf(t.args[0]);
        return from ? cast(t.to, build(t.args[0], *from)) : build(t.args[0], t.to);
      }
      case Tree::Apply_: break;
    }
    const OpInfo& i = info(t.op);
    std::vector<Expr> args;
    std::vector<DType> types;
    for (size_t k = 0; k < t.args.size(); k++) {
      DType want = expected;
      if (i.rule == TypeRule::Sel && k == 0)
        want = DType::Bool;
      else if (const auto known = either(t.args, i.rule == TypeRule::Sel ? 1 : 0))
        want = *known;
      else if (i.rule == TypeRule::Cmp || i.rule == TypeRule::Tst)
        want = i.rule == TypeRule::Tst ? DType::F64 : DType::I64;
      args.push_back(build(t.args[k], want));
      types.push_back(args.back().type());
    }
    if (!resultType(t.op, types)) {
      std::string found;
      for (DType d : types) found += fmt::format("{}{}", found.empty() ? "" : ", ", name(d));
      in_.failAt(t.token,
                 fmt::format("'{}' doesn't take ({}), expected {}", i.name, found, wanted(i.rule)));
    }
    return apply(t.op, std::move(args));
  }

 private:
  std::optional<DType> either(const std::vector<Tree>& args, size_t from) {
    for (size_t k = from; k < args.size(); k++)
      if (const auto t = typeOf(args[k])) return t;
    return std::nullopt;
  }

  Tree unary() {
    if (!in_.at("-")) return primary();
    const Token sign = in_.next();
    Tree arg = unary();
    if (arg.kind == Tree::Number) {
      arg.real = -arg.real;
      arg.integer = static_cast<int64_t>(0 - static_cast<uint64_t>(arg.integer));
      return arg;
    }
    Tree t{Tree::Apply_, sign};
    t.op = Op::Neg;
    t.args.push_back(std::move(arg));
    return t;
  }

  Tree literal(const Token& token, double value) {
    Tree t{Tree::Number, token};
    t.real = value;
    return t;
  }

  Tree primary() {
    const Token token = in_.peek();
    if (token.kind == Token::Number) {
      in_.next();
      Tree t = literal(token, std::strtod(std::string(token.text).c_str(), nullptr));
      t.whole = token.text.find_first_of(".eE") == std::string_view::npos;
      if (t.whole)
        t.integer =
            static_cast<int64_t>(std::strtoull(std::string(token.text).c_str(), nullptr, 10));
      return t;
    }
    if (in_.accept("(")) {
      Tree t = binary(0);
      in_.expect(")");
      return t;
    }
    if (token.kind != Token::Name) in_.fail("an expression");
    in_.next();
    if (token.text == "inf") return literal(token, INFINITY);
    if (token.text == "nan") return literal(token, NAN);
    if (in_.accept("(")) return call(token);
    Tree t{Tree::Typed, token};
    if (const auto type = names_.buffer(token.text)) {
      std::vector<Expr> index;
      if (in_.accept("[")) {
        do {
          const Tree i = binary(0);
          const Expr e = build(i, DType::I64);
          if (e.type() != DType::I64)
            in_.failAt(i.token, fmt::format("an index is i64, found {}", name(e.type())));
          index.push_back(e);
        } while (in_.accept(","));
        in_.expect("]");
      }
      t.typed = load(std::string(token.text), *type, std::move(index));
    } else if (const auto type = names_.variable(token.text)) {
      t.typed = var(std::string(token.text), *type);
    } else {
      in_.failAt(token, fmt::format("unknown name '{}'", token.text));
    }
    return t;
  }

  Tree call(const Token& token) {
    Tree t{Tree::Apply_, token};
    const auto type = dtypeFromName(token.text);
    const OpInfo* op = opFromName(token.text);
    if (!type && !op) in_.failAt(token, fmt::format("unknown function '{}'", token.text));
    do t.args.push_back(binary(0));
    while (in_.accept(","));
    in_.expect(")");
    const int arity = type ? 1 : op->arity;
    if (static_cast<int>(t.args.size()) != arity)
      in_.failAt(token, fmt::format("'{}' takes {} argument{}, found {}", token.text, arity,
                                    arity == 1 ? "" : "s", t.args.size()));
    if (type) {
      t.kind = Tree::Convert;
      t.to = *type;
    } else {
      t.op = op->op;
    }
    return t;
  }

  Lexer& in_;
  const Names& names_;
};

}  // namespace

std::string toText(const Expr& e) { return e ? Printer().print(e, 0, false) : "<none>"; }

Expr parseExprOfAnyType(Lexer& in, const Names& names, DType fallback) {
  Parser parser(in, names);
  const Tree tree = parser.binary(0);
  return parser.build(tree, parser.typeOf(tree).value_or(fallback));
}

DType parseDType(Lexer& in) {
  const Token t = in.peek();
  const auto type = dtypeFromName(in.name("a dtype"));
  if (!type) in.failAt(t, fmt::format("expected a dtype, found '{}'", t.text));
  return *type;
}

Expr parseExpr(Lexer& in, const Names& names, DType expected) {
  const Token start = in.peek();
  const Expr e = parseExprOfAnyType(in, names, expected);
  if (e.type() != expected)
    in.failAt(start, fmt::format("expected {}, found {}", name(expected), name(e.type())));
  return e;
}

Expr parseScalar(std::string_view text, const std::vector<std::pair<std::string, DType>>& operands,
                 DType expected) {
  Lexer in(text, "scalar text");
  const Names names{[&](std::string_view n) -> std::optional<DType> {
                      for (const auto& [name, type] : operands)
                        if (name == n) return type;
                      return std::nullopt;
                    },
                    [](std::string_view) { return std::nullopt; }};
  const Expr e = parseExpr(in, names, expected);
  if (in.peek().kind != Token::End) in.fail("the end");
  return e;
}

}  // namespace tektite
