#include <algorithm>
#include <cstring>
#include <map>

#include "ir/bytes.h"
#include "ir/combine_text.h"
#include "ir/expr_text.h"
#include "ir/graph.h"
#include "support/check.h"

namespace tektite {
namespace {

/// What a whole text shares: the tokens, declared combines and dims.
struct Source {
  Lexer in;
  std::vector<Combine> combines;
  std::map<std::string, DimRange> dims;
};

bool isCoordinate(std::string_view name, int rank) {
  for (int i = 0; i < rank; i++)
    if (name == coordinate(i)) return true;
  return false;
}

/// One graph, or one nested in it: names of values are its own.
class Parser {
 public:
  explicit Parser(Source& source) : s_(source), in_(source.in) {
    names_.variable = [this](std::string_view n) { return variable(n); };
    names_.buffer = [this](std::string_view n) { return buffer(n); };
  }

  Graph graph(bool outermost) {
    in_.expect("(");
    if (!in_.accept(")")) {
      do outermost&& in_.at("dim") && in_.peek(1).kind == Token::Name ? dim() : input();
      while (in_.accept(","));
      in_.expect(")");
    }
    in_.expect("{");
    while (in_.at("%")) statement();
    results();
    in_.expect("}");
    g_.dims = s_.dims;
    return std::move(g_);
  }

 private:
  // ---- names
  std::optional<DType> variable(std::string_view n) const {
    if (s_.dims.count(std::string(n))) return DType::I64;
    if (isCoordinate(n, rank_)) return DType::I64;
    if (!loads_)
      for (size_t i = 0; i < operands_.size(); i++)
        if (n == operandName(static_cast<int>(i))) return g_.type(operands_[i]).dtype;
    return std::nullopt;
  }
  std::optional<DType> buffer(std::string_view n) const {
    if (loads_)
      for (size_t i = 1; i < operands_.size(); i++)
        if (n == operandName(static_cast<int>(i))) return g_.type(operands_[i]).dtype;
    return std::nullopt;
  }
  /// In expressions from now on: coordinates below `rank`, and the operands as variables or, `loads`, as buffers.
  void scope(int rank, bool loads) {
    rank_ = rank;
    loads_ = loads;
  }

  /// x, "x:0", %3, %a
  std::string valueName(std::string_view what) {
    if (in_.peek().kind == Token::String) return std::string(in_.next().text);
    if (!in_.accept("%")) return in_.name(what);
    if (in_.peek().kind != Token::Name && in_.peek().kind != Token::Number)
      in_.fail("a value's name after '%'");
    return "%" + std::string(in_.next().text);
  }
  Value value() {
    const Token t = in_.peek();
    const std::string name = valueName("a value");
    const auto it = values_.find(name);
    if (it == values_.end()) in_.failAt(t, fmt::format("unknown value '{}'", name));
    return it->second;
  }
  void define(const Token& t, const std::string& name, Value v) {
    if (!values_.emplace(name, v).second) in_.failAt(t, fmt::format("'{}' is defined twice", name));
  }
  std::vector<Value> list(std::string_view open, std::string_view close) {
    std::vector<Value> out;
    in_.expect(open);
    if (in_.accept(close)) return out;
    do out.push_back(value());
    while (in_.accept(","));
    in_.expect(close);
    return out;
  }
  void append(const std::vector<Value>& more) {
    operands_.insert(operands_.end(), more.begin(), more.end());
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> out;
    in_.expect("[");
    if (in_.accept("]")) return out;
    do out.push_back(in_.integer("an integer"));
    while (in_.accept(","));
    in_.expect("]");
    return out;
  }

  // ---- types
  TensorType type() {
    const std::vector<Value> kept = std::move(operands_);
    operands_.clear();
    scope(0, false);
    TensorType t{parseDType(in_), {}};
    if (in_.accept("[")) {
      do t.shape.push_back(parseExpr(in_, names_, DType::I64));
      while (in_.accept("x"));
      in_.expect("]");
    }
    operands_ = kept;
    return t;
  }
  std::string origin() {
    if (!in_.accept("@")) return "";
    if (in_.peek().kind != Token::String) in_.fail("an origin in quotes");
    return std::string(in_.next().text);
  }

  // ---- parameters
  void dim() {
    in_.expect("dim");
    const Token t = in_.peek();
    const std::string name = in_.name("a dim's name");
    if (isCoordinate(name, 100))
      in_.failAt(t, fmt::format("'{}' is a coordinate, expected another name for a dim", name));
    in_.expect(":");
    DimRange range;
    range.low = in_.integer("the least value");
    in_.expect("..");
    range.high = in_.integer("the greatest value");
    if (!s_.dims.emplace(name, range).second)
      in_.failAt(t, fmt::format("'{}' is defined twice", name));
  }
  void input() {
    const Token t = in_.peek();
    const std::string name = valueName("a value");
    in_.expect(":");
    Node n{Input{}, {}, {type()}, name[0] == '%' ? "" : name, ""};
    n.origin = origin();
    define(t, name, g_.add(std::move(n)));
  }

  // ---- statements
  void statement() {
    std::vector<std::pair<Token, std::string>> names;
    do {
      const Token t = in_.peek();
      if (!in_.at("%")) in_.fail("'%'");
      names.emplace_back(t, valueName("a value"));
    } while (in_.accept(","));
    in_.expect("=");
    const Token start = in_.peek();
    const std::string kind = in_.name("a kind of node");
    operands_.clear();
    Node n;
    if (!fill(kind, n)) in_.failAt(start, fmt::format("unknown kind of node '{}'", kind));
    n.operands = operands_;
    if (n.results.empty()) types(n);
    n.origin = origin();
    if (n.results.size() != names.size())
      in_.failAt(start,
                 fmt::format("found {} names for {} results", names.size(), n.results.size()));
    const Value v = g_.add(std::move(n));
    for (size_t i = 0; i < names.size(); i++)
      define(names[i].first, names[i].second, {v.node, static_cast<int>(i)});
  }
  void types(Node& n) {
    in_.expect(":");
    do n.results.push_back(type());
    while (in_.accept(","));
  }
  bool fill(const std::string& kind, Node& n) {
    if (kind == "const")
      constant(n);
    else if (kind == "map")
      map(n);
    else if (kind == "reduce")
      reduce(n);
    else if (kind == "contract")
      contract(n);
    else if (kind == "view" || kind == "gather")
      view(n, kind == "gather");
    else if (kind == "concat")
      concat(n);
    else if (kind == "update")
      update(n);
    else if (kind == "if")
      branch(n);
    else if (kind == "loop")
      loop(n);
    else if (kind == "scan")
      scan(n);
    else if (kind == "call")
      call(n);
    else if (kind == "group")
      group(n);
    else
      return false;
    return true;
  }

  /// The result types come after the text at hand: skips to the ':' outside brackets, reads them, comes back.
  size_t typesAhead(Node& n) {
    const size_t here = in_.position();
    for (int depth = 0; depth > 0 || !in_.at(":");) {
      if (in_.peek().kind == Token::End) in_.fail("':'");
      if (in_.at("(") || in_.at("[") || in_.at("{")) depth++;
      if (in_.at(")") || in_.at("]") || in_.at("}")) depth--;
      in_.next();
    }
    types(n);
    const size_t after = in_.position();
    in_.rewind(here);
    return after;
  }
  void past(size_t after) {
    if (!in_.at(":")) in_.fail("':'");
    in_.rewind(after);
  }

  void constant(Node& n) {
    const size_t after = typesAhead(n);
    const TensorType& t = n.results[0];
    Const c;
    scope(0, false);
    const auto name = [&] {
      if (in_.peek().kind == Token::String) n.name = std::string(in_.next().text);
    };
    if (in_.at("data") || in_.at("[")) {
      if (!t.isStatic()) in_.fail("a static shape for constant data");
      auto data = std::make_shared<ConstData>();
      data->bytes = static_cast<size_t>(bytesOf(t));
      if (in_.accept("data")) {
        if (in_.peek().kind != Token::String) in_.fail("the data's name in quotes");
      } else {
        elements(t, *data);
      }
      c.data = std::move(data);
    } else {
      c.splat = parseExpr(in_, names_, t.dtype);
      if (!c.splat.as<Imm>()) in_.fail("a number");
    }
    name();
    n.kind = std::move(c);
    past(after);
  }
  void elements(const TensorType& t, ConstData& data) {
    const auto bytes = std::make_shared<std::vector<char>>(data.bytes + 1);
    const Token start = in_.peek();
    in_.expect("[");
    int64_t count = 0;
    if (!in_.accept("]")) {
      do {
        const Expr e = parseExpr(in_, names_, t.dtype);
        if (!e.as<Imm>()) in_.fail("a number");
        if (count < t.elements() && isFloat(t.dtype))
          storeFloat(t.dtype, bytes->data(), count, e.as<Imm>()->real);
        else if (count < t.elements())
          storeInteger(t.dtype, bytes->data(), count, e.as<Imm>()->integer);
        count++;
      } while (in_.accept(","));
      in_.expect("]");
    }
    if (count != t.elements())
      in_.failAt(start, fmt::format("found {} numbers for {}", count, toText(t)));
    data.data = bytes->data();
    data.owner = bytes;
  }

  void map(Node& n) {
    append(list("(", ")"));
    const size_t after = typesAhead(n);
    in_.expect("{");
    scope(n.results[0].rank(), false);
    n.kind = Map{parseExpr(in_, names_, n.results[0].dtype)};
    in_.expect("}");
    past(after);
  }

  void reduce(Node& n) {
    const Token t = in_.peek();
    const std::string name = in_.name("a combine's name");
    do operands_.push_back(value());
    while (in_.accept(","));
    Reduce r;
    const auto it = std::find_if(s_.combines.begin(), s_.combines.end(),
                                 [&](const Combine& c) { return c.name == name; });
    if (it != s_.combines.end()) {
      r.combine = *it;
    } else {
      const DType type = g_.type(operands_[0]).dtype;
      if (!isBuiltinCombine(name)) in_.failAt(t, fmt::format("unknown combine '{}'", name));
      if (name == "any" || name == "all" ? isFloat(type) : type == DType::Bool)
        in_.failAt(t, fmt::format("combine '{}' of {}", name, tektite::name(type)));
      r.combine = builtinCombine(name, type);
    }
    if (r.combine.arity() != operands_.size())
      in_.failAt(t, fmt::format("combine '{}' takes {} operands, found {}", name, r.combine.arity(),
                                operands_.size()));
    in_.expect("axes");
    in_.expect("=");
    for (int64_t axis : integers()) r.axes.push_back(static_cast<int>(axis));
    n.kind = std::move(r);
  }

  void contract(Node& n) {
    do operands_.push_back(value());
    while (in_.accept(","));
    const Token t = in_.peek();
    std::string spec;
    if (t.kind == Token::String)
      spec = std::string(in_.next().text);
    else
      while (!in_.at(":") && in_.peek().kind != Token::End) spec += in_.next().text;
    const size_t arrow = spec.find("->");
    if (arrow == spec.npos)
      in_.failAt(t, fmt::format("expected labels like 'ij,jk->ik', found '{}'", spec));
    Contract c{{}, spec.substr(arrow + 2)};
    spec.resize(arrow);
    for (size_t from = 0;;) {
      const size_t comma = spec.find(',', from);
      c.inputs.push_back(spec.substr(from, comma - from));
      if (comma == spec.npos) break;
      from = comma + 1;
    }
    if (c.inputs.size() != operands_.size())
      in_.failAt(t, fmt::format("found labels of {} operands, expected {}", c.inputs.size(),
                                operands_.size()));
    n.kind = std::move(c);
  }

  /// (d0, d1) -> (exprs): as many coordinates as `rank`.
  std::vector<Expr> index(int rank, std::string_view what) {
    const Token t = in_.peek();
    in_.expect("(");
    int count = 0;
    if (!in_.accept(")")) {
      do {
        const Token c = in_.peek();
        if (in_.name("a coordinate") != coordinate(count))
          in_.failAt(c, fmt::format("expected '{}', found '{}'", coordinate(count), c.text));
        count++;
      } while (in_.accept(","));
      in_.expect(")");
    }
    if (count != rank)
      in_.failAt(t, fmt::format("found {} coordinates for a {} of rank {}", count, what, rank));
    in_.expect("->");
    in_.expect("(");
    std::vector<Expr> out;
    if (in_.accept(")")) return out;
    do out.push_back(parseExpr(in_, names_, DType::I64));
    while (in_.accept(","));
    in_.expect(")");
    return out;
  }
  void view(Node& n, bool gathers) {
    operands_.push_back(value());
    if (gathers) append(list("[", "]"));
    const size_t after = typesAhead(n);
    const int rank = n.results[0].rank();
    scope(rank, true);
    View v;
    v.index = index(rank, "result");
    if (in_.accept("fill")) {
      in_.expect("=");
      v.fill = parseExpr(in_, names_, g_.type(operands_[0]).dtype);
    }
    if (in_.accept("guard")) {
      in_.expect("=");
      v.guard = parseExpr(in_, names_, DType::Bool);
    }
    if (gathers)
      n.kind = Gather{std::move(v)};
    else
      n.kind = std::move(v);
    past(after);
  }

  void concat(Node& n) {
    do operands_.push_back(value());
    while (in_.accept(","));
    in_.expect("axis");
    in_.expect("=");
    n.kind = Concat{static_cast<int>(in_.integer("an axis"))};
  }

  void update(Node& n) {
    operands_.push_back(value());
    append(list("[", "]"));
    operands_.push_back(value());
    const int rank = g_.type(operands_.back()).rank();
    scope(rank, true);
    Update u;
    u.index = index(rank, "value");
    if (in_.accept("combine")) {
      in_.expect("=");
      const Token t = in_.peek();
      u.combine = in_.name("a combine's name");
      if (!isBuiltinCombine(u.combine))
        in_.failAt(t, fmt::format("unknown combine '{}'", u.combine));
    }
    n.kind = std::move(u);
  }

  // ---- nested graphs
  std::shared_ptr<const Graph> nested() {
    return std::make_shared<const Graph>(Parser(s_).graph(false));
  }

  void branch(Node& n) {
    operands_.push_back(value());
    append(list("[", "]"));
    Branch b;
    in_.expect("then");
    b.then = nested();
    in_.expect("else");
    b.otherwise = nested();
    n.kind = std::move(b);
  }
  void loop(Node& n) {
    operands_.push_back(value());
    in_.expect(",");
    operands_.push_back(value());
    Loop l;
    append(list("[", "]"));
    l.states = static_cast<int>(operands_.size()) - 2;
    append(list("[", "]"));
    in_.expect("body");
    l.body = nested();
    n.kind = std::move(l);
  }
  void scan(Node& n) {
    Scan s;
    append(list("[", "]"));
    s.states = static_cast<int>(operands_.size());
    append(list("[", "]"));
    s.scanned = static_cast<int>(operands_.size()) - s.states;
    append(list("[", "]"));
    if (in_.accept("reverse")) {
      in_.expect("=");
      for (int64_t flag : integers()) s.reverse.push_back(flag != 0);
    }
    in_.expect("body");
    s.body = nested();
    n.kind = std::move(s);
    types(n);
    auto& scan = std::get<Scan>(n.kind);
    if (scan.reverse.empty())
      scan.reverse.resize(scan.scanned + n.results.size() -
                          std::min<size_t>(scan.states, n.results.size()));
  }
  void group(Node& n) {
    append(list("(", ")"));
    in_.expect("body");
    n.kind = Group{nested(), nullptr};
  }
  void call(Node& n) {
    Call c;
    c.routine = in_.name("a routine's name");
    append(list("(", ")"));
    scope(0, false);
    while (in_.peek().kind == Token::Name) {
      const std::string name = in_.name("a parameter's name");
      in_.expect("=");
      if (in_.peek().kind == Token::String) {
        c.texts[name] = std::string(in_.next().text);
        continue;
      }
      std::vector<double>& values = c.numbers[name];
      in_.expect("[");
      if (in_.accept("]")) continue;
      do {
        const Expr e = parseExpr(in_, names_, DType::F64);
        if (!e.as<Imm>()) in_.fail("a number");
        values.push_back(e.as<Imm>()->real);
      } while (in_.accept(","));
      in_.expect("]");
    }
    n.kind = std::move(c);
  }

  void results() {
    in_.expect("return");
    if (in_.at("}")) return;
    do {
      const Token t = in_.peek();
      const bool named =
          t.text != "%" && in_.peek(1).text == "=" && in_.peek(1).kind == Token::Sign;
      if (named) {
        if (t.kind != Token::Name && t.kind != Token::String) in_.fail("an output's name");
        g_.outputNames.emplace_back(in_.next().text);
        in_.next();
      }
      if (named != !g_.outputNames.empty())
        in_.failAt(t, "some outputs have names, expected all or none");
      g_.outputs.push_back(value());
    } while (in_.accept(","));
  }

  Source& s_;
  Lexer& in_;
  Graph g_;
  Names names_;
  std::map<std::string, Value> values_;
  std::vector<Value> operands_;  // of the node at hand
  int rank_ = 0;
  bool loads_ = false;
};

}  // namespace

Graph parseGraph(std::string_view text, const std::string& file) {
  Source s{Lexer(text, file), {}, {}};
  while (s.in.at("combine")) s.combines.push_back(parseCombine(s.in));
  for (size_t i = 0; i < s.combines.size(); i++)
    for (size_t k = 0; k < i; k++)
      if (s.combines[i].name == s.combines[k].name)
        s.in.fail(fmt::format("a graph; combine '{}' is declared twice", s.combines[i].name));
  s.in.expect("graph");
  Graph g = Parser(s).graph(true);
  if (s.in.peek().kind != Token::End) s.in.fail("the end");
  return g;
}

}  // namespace tektite
