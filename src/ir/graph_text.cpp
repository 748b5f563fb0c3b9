#include <algorithm>
#include <cmath>

#include "ir/combine_text.h"
#include "ir/graph.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr size_t kColumns = 120;     // longer heads are broken between parameters
constexpr int64_t kMostInline = 32;  // elements of constant data written out

bool isName(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0]) || text.find("..") != text.npos) return false;
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.'; });
}
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' || c == '\n' ? '\'' : c;
  return out + '"';
}

std::string number(DType t, const void* data, int64_t at) {
  const Expr e = isFloat(t)
                     ? imm(t, loadFloat(t, data, at))
                     : immInteger(t == DType::Bool ? DType::I64 : t, loadInteger(t, data, at));
  return toText(e);
}

/// The combines that a graph declares: by name, equal ones once.
void collect(const Graph& g, std::vector<Combine>& out) {
  for (const Node& n : g.nodes) {
    if (const Reduce* r = n.as<Reduce>(); r && !isBuiltinCombine(r->combine.name)) {
      const bool seen = std::any_of(out.begin(), out.end(),
                                    [&](const Combine& c) { return c.name == r->combine.name; });
      if (!seen) out.push_back(r->combine);
    }
    for (const auto& nested : nestedGraphs(n)) collect(*nested, out);
  }
}

class Printer {
 public:
  Printer(const Graph& g, int indent)
      : g_(g), numbers_(valueNumbers(g)), pad_(static_cast<size_t>(indent), ' ') {}

  std::string params(bool withDims) const {
    std::vector<std::string> list;
    if (withDims)
      for (const auto& [name, range] : g_.dims)
        list.push_back(fmt::format("dim {}: {}..{}", name, range.low, range.high));
    for (Value v : g_.inputs())
      list.push_back(valueText(v) + ": " + toText(g_.type(v)) + originText(g_.node(v)));
    std::string out = "(";
    size_t column = withDims ? 7 : pad_.size();  // after "graph ("
    for (size_t i = 0; i < list.size(); i++) {
      const std::string text = list[i] + (i + 1 < list.size() ? "," : "");
      if (i && withDims && column + 1 + text.size() > kColumns) {
        out += "\n       ";
        column = 7;
      } else if (i) {
        out += " ";
        column++;
      }
      out += text;
      column += text.size();
    }
    return out + ")";
  }

  std::string block() const {
    std::string out = "{\n";
    for (int i = 0; i < static_cast<int>(g_.nodes.size()); i++) {
      const Node& n = g_.nodes[i];
      if (n.as<Input>()) continue;
      std::vector<std::string> names, types;
      for (int k = 0; k < static_cast<int>(n.results.size()); k++) {
        names.push_back(valueText({i, k}));
        types.push_back(toText(n.results[k]));
      }
      out += fmt::format("{}  {} = {} : {}{}\n", pad_, fmt::join(names, ", "), kindText(n, i),
                         fmt::join(types, ", "), originText(n));
    }
    std::vector<std::string> results;
    for (size_t i = 0; i < g_.outputs.size(); i++) {
      const std::string name = g_.outputNames.empty()      ? ""
                               : isName(g_.outputNames[i]) ? g_.outputNames[i] + " = "
                                                           : quoted(g_.outputNames[i]) + " = ";
      results.push_back(name + valueText(g_.outputs[i]));
    }
    return out + fmt::format("{}  return{}{}\n{}}}", pad_, results.empty() ? "" : " ",
                             fmt::join(results, ", "), pad_);
  }

 private:
  static std::string originText(const Node& n) {
    return n.origin.empty() ? "" : " @" + quoted(n.origin);
  }

  std::string valueText(Value v) const {
    const Node& n = g_.node(v);
    if (n.as<Input>() && !n.name.empty()) return isName(n.name) ? n.name : quoted(n.name);
    return n.results.size() == 1 ? fmt::format("%{}", numbers_[v.node])
                                 : fmt::format("%{}.{}", numbers_[v.node], v.result);
  }
  std::string list(const Node& n, size_t from, size_t to) const {
    std::vector<std::string> out;
    for (size_t i = from; i < to; i++) out.push_back(valueText(n.operands[i]));
    return fmt::format("{}", fmt::join(out, ", "));
  }
  std::string all(const Node& n) const { return list(n, 0, n.operands.size()); }
  static std::string coordinates(int rank) {
    std::vector<std::string> out;
    for (int i = 0; i < rank; i++) out.push_back(coordinate(i));
    return fmt::format("({})", fmt::join(out, ", "));
  }
  static std::string exprs(const std::vector<Expr>& list) {
    std::vector<std::string> out;
    for (const Expr& e : list) out.push_back(toText(e));
    return fmt::format("({})", fmt::join(out, ", "));
  }
  std::string nested(const Graph& g) const {
    const Printer inner(g, static_cast<int>(pad_.size()) + 2);
    return inner.params(false) + " " + inner.block();
  }

  std::string constText(const Node& n, const Const& c, int id) const {
    const TensorType& t = n.results[0];
    if (c.splat)
      return "const " +
             (t.dtype == DType::Bool ? fmt::format("{}", c.splat.as<Imm>()->integer)
                                     : toText(c.splat)) +
             nameText(n);
    if (!c.data->data || t.elements() > kMostInline)
      return "const data " + quoted(n.name.empty() ? fmt::format("c{}", numbers_[id]) : n.name);
    std::vector<std::string> out;
    for (int64_t i = 0; i < t.elements(); i++) out.push_back(number(t.dtype, c.data->data, i));
    return fmt::format("const [{}]{}", fmt::join(out, ", "), nameText(n));
  }
  static std::string nameText(const Node& n) { return n.name.empty() ? "" : " " + quoted(n.name); }
  std::string viewText(const Node& n, const View& v) const {
    const std::string fill = v.fill ? " fill=" + (v.fill.type() == DType::Bool
                                                      ? fmt::format("{}", v.fill.as<Imm>()->integer)
                                                      : toText(v.fill))
                                    : "";
    return fmt::format("{} -> {}{}{}", coordinates(n.results[0].rank()), exprs(v.index), fill,
                       v.guard ? " guard=" + toText(v.guard) : "");
  }
  std::string updateText(const Node& n, const Update& u) const {
    const size_t last = n.operands.size() - 1;
    return fmt::format("update {} [{}] {} {} -> {}{}", valueText(n.operands[0]), list(n, 1, last),
                       valueText(n.operands[last]), coordinates(g_.type(n.operands[last]).rank()),
                       exprs(u.index), u.combine.empty() ? "" : " combine=" + u.combine);
  }
  std::string contractText(const Node& n, const Contract& c) const {
    const bool blank = std::any_of(c.inputs.begin(), c.inputs.end(),
                                   [](const std::string& s) { return s.empty(); });
    const std::string spec = fmt::format("{}->{}", fmt::join(c.inputs, ","), c.output);
    return fmt::format("contract {} {}", all(n), blank ? quoted(spec) : spec);
  }
  std::string scanText(const Node& n, const Scan& s) const {
    const size_t a = static_cast<size_t>(s.states), b = a + static_cast<size_t>(s.scanned);
    std::vector<int> reverse(s.reverse.begin(), s.reverse.end());
    const bool any = std::count(reverse.begin(), reverse.end(), 1) > 0;
    return fmt::format("scan [{}] [{}] [{}]{} body {}", list(n, 0, a), list(n, a, b),
                       list(n, b, n.operands.size()),
                       any ? fmt::format(" reverse=[{}]", fmt::join(reverse, ", ")) : "",
                       nested(*s.body));
  }
  std::string loopText(const Node& n, const Loop& l) const {
    const size_t a = 2 + static_cast<size_t>(l.states);
    return fmt::format("loop {} [{}] [{}] body {}", list(n, 0, 2), list(n, 2, a),
                       list(n, a, n.operands.size()), nested(*l.body));
  }
  std::string callText(const Node& n, const Call& c) const {
    std::string out = fmt::format("call {} ({})", c.routine, all(n));
    for (const auto& [name, values] : c.numbers) {
      std::vector<std::string> list;
      for (double v : values) list.push_back(toText(imm(DType::F64, v)));
      out += fmt::format(" {}=[{}]", name, fmt::join(list, ", "));
    }
    for (const auto& [name, text] : c.texts) out += fmt::format(" {}={}", name, quoted(text));
    return out;
  }

  std::string kindText(const Node& n, int id) const {
    return std::visit(
        overloaded{
            [](const Input&) { return std::string(); },
            [&](const Const& c) { return constText(n, c, id); },
            [&](const Map& m) { return fmt::format("map ({}) {{ {} }}", all(n), toText(m.body)); },
            [&](const Reduce& r) {
              return fmt::format("reduce {} {} axes=[{}]", r.combine.name, all(n),
                                 fmt::join(r.axes, ", "));
            },
            [&](const Contract& c) { return contractText(n, c); },
            [&](const View& v) { return fmt::format("view {} {}", all(n), viewText(n, v)); },
            [&](const Gather& v) {
              return fmt::format("gather {} [{}] {}", valueText(n.operands[0]),
                                 list(n, 1, n.operands.size()), viewText(n, v));
            },
            [&](const Concat& c) { return fmt::format("concat {} axis={}", all(n), c.axis); },
            [&](const Update& u) { return updateText(n, u); },
            [&](const Branch& b) {
              return fmt::format("if {} [{}] then {} else {}", valueText(n.operands[0]),
                                 list(n, 1, n.operands.size()), nested(*b.then),
                                 nested(*b.otherwise));
            },
            [&](const Loop& l) { return loopText(n, l); },
            [&](const Scan& s) { return scanText(n, s); },
            [&](const Call& c) { return callText(n, c); },
            [&](const Group& g) {
              return fmt::format("group ({}) body {}", all(n), nested(*g.body));
            }},
        n.kind);
  }

  const Graph& g_;
  const std::vector<int> numbers_;
  const std::string pad_;
};

}  // namespace

std::string toText(const Graph& g) {
  std::vector<Combine> combines;
  collect(g, combines);
  std::string out;
  for (const Combine& c : combines) out += toText(c) + "\n";
  const Printer p(g, 0);
  return out + "graph " + p.params(true) + " " + p.block() + "\n";
}

}  // namespace tektite
