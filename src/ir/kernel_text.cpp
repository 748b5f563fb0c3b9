#include "ir/combine_text.h"
#include "ir/kernel.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr size_t kColumns = 120;  // longer heads are broken between parameters

template <class List, class F>
std::string join(const List& list, F text, std::string_view between = ", ") {
  std::string out;
  for (const auto& x : list) out += (out.empty() ? "" : std::string(between)) + text(x);
  return out;
}
std::string exprs(const std::vector<Expr>& list) {
  return join(list, [](const Expr& e) { return toText(e); });
}

/// `4x16`, `M x 16`: closed up between two numbers.
std::string shapeText(const std::vector<Expr>& shape) {
  std::string out;
  for (size_t i = 0; i < shape.size(); i++) {
    if (i) out += shape[i - 1].as<Imm>() && shape[i].as<Imm>() ? "x" : " x ";
    out += toText(shape[i]);
  }
  return out;
}

std::string bufferText(const Buffer& b) {
  std::string out = fmt::format("{}: {}", b.name, name(b.type));
  if (!b.shape.empty()) out += "[" + shapeText(b.shape) + "]";
  if (b.space != "main") out += "@" + b.space;
  if (!b.strides.empty()) out += " strides=[" + exprs(b.strides) + "]";
  if (b.align) out += fmt::format(" align={}", b.align);
  if (!b.alias.empty()) out += " alias=" + b.alias;
  return out;
}

std::string refText(const Ref& r) {
  return r.index.empty() ? r.buffer : fmt::format("{}[{}]", r.buffer, exprs(r.index));
}

std::string combineSign(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> signs[] = {
      {"sum", "+"}, {"product", "*"}, {"any", "|"}, {"all", "&"}};
  for (auto [combine, sign] : signs)
    if (combine == name) return std::string(sign);
  return name;
}

std::string queueText(const std::string& queue) { return queue.empty() ? "" : " async " + queue; }

/// `kernel f(a, b) {`, broken into lines between the parameters where it is long.
std::string head(const std::string& start, const std::vector<std::string>& params) {
  std::string out = start + "(", line;
  const std::string indent(out.size(), ' ');
  size_t column = out.size();
  for (size_t i = 0; i < params.size(); i++) {
    const std::string text = params[i] + (i + 1 < params.size() ? "," : ") {");
    if (i && column + 1 + text.size() > kColumns) {
      out += "\n" + indent;
      column = indent.size();
    } else if (i) {
      out += " ";
      column++;
    }
    out += text;
    column += text.size();
  }
  return params.empty() ? out + ") {" : out;
}

std::vector<std::string> paramTexts(const std::vector<Dim>& dims, const std::vector<Param>& params,
                                    const std::vector<bool>& isDim) {
  std::vector<std::string> out;
  size_t d = 0, p = 0;
  const auto dim = [&] {
    out.push_back(fmt::format("dim {}: {}..{}", dims[d].name, dims[d].low, dims[d].high));
    d++;
  };
  const auto param = [&] {
    constexpr std::string_view modes[] = {"", "out ", "inout "};
    out.push_back(std::string(modes[params[p].mode]) + bufferText(params[p].buffer));
    p++;
  };
  for (bool nextIsDim : isDim) nextIsDim ? dim() : param();
  while (d < dims.size()) dim();
  while (p < params.size()) param();
  return out;
}

std::string commentText(const std::string& comment, const std::string& pad) {
  std::string out;
  for (size_t at = 0; at < comment.size();) {
    const size_t end = std::min(comment.find('\n', at), comment.size());
    out += pad + "# " + comment.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

class Printer {
 public:
  std::string block(const Block& b, int indent) {
    std::string out;
    for (const Stmt& s : b) out += statement(s, indent);
    return out;
  }

 private:
  std::string nest(const std::string& pad, const std::string& head, const Block& body, int indent) {
    return pad + head + "{\n" + block(body, indent + 1) + pad + "}\n";
  }
  std::string statement(const Stmt& s, int indent) {
    const std::string pad(2 * indent, ' ');
    return commentText(s.comment, pad) +
           std::visit(
               overloaded{
                   [&](const BlockStmt& b) { return nest(pad, "", b.body, indent); },
                   [&](const For& f) {
                     const std::string head =
                         fmt::format("for {} in {} {} ", f.var, toText(f.extent), name(f.mode));
                     return nest(pad, head, f.body, indent);
                   },
                   [&](const If& i) {
                     return nest(pad, "if " + toText(i.condition) + " ", i.body, indent);
                   },
                   [&](const Alloc& a) { return pad + "alloc " + allocText(a.buffer) + "\n"; },
                   [&](const Store& t) { return pad + storeText(t) + "\n"; },
                   [&](const Copy& c) { return pad + copyText(c) + "\n"; },
                   [&](const Sync& y) { return pad + "sync " + syncText(y) + "\n"; },
                   [&](const Intrin& i) {
                     const auto arg = [](const IntrinArg& a) {
                       const Ref* r = std::get_if<Ref>(&a.value);
                       return r ? refText(*r) : toText(std::get<Expr>(a.value));
                     };
                     return fmt::format("{}intrin {}({}){}\n", pad, i.name, join(i.args, arg),
                                        queueText(i.queue));
                   }},
               s.kind);
  }
  static std::string allocText(const Buffer& b) {
    std::string out = bufferText(b);
    if (b.space == "main") out += "@main";
    return out;
  }
  static std::string storeText(const Store& t) {
    return fmt::format("{} {}= {}{}", join(t.targets, refText), combineSign(t.combine),
                       exprs(t.values), t.stream ? " stream" : "");
  }
  static std::string copyText(const Copy& c) {
    const std::string to = c.to ? refText(*c.to) : c.level.empty() ? "" : "@" + c.level;
    std::string out = "copy " + to + (to.empty() ? "" : " <- ") + refText(c.from);
    out += " for " + join(c.axes, [](const CopyAxis& a) {
             return fmt::format("{} in {}", a.var, toText(a.extent));
           });
    if (c.fill) out += " fill=" + toText(c.fill);
    return out + queueText(c.queue);
  }
  static std::string syncText(const Sync& y) {
    switch (y.kind) {
      case Sync::Shared: return "shared";
      case Sync::Grid: return "grid";
      case Sync::Last: return "last " + y.name;
      case Sync::Queue: return fmt::format("{} {}", y.name, y.pending);
    }
    return "";
  }
};

std::string toText(const IntrinDef& i) {
  return head("intrin " + i.name, paramTexts(i.dims, i.params, i.isDim)) + "\n" +
         toText(i.body, 1) + "}\n";
}

}  // namespace

std::string toText(const Block& b, int indent) { return Printer().block(b, indent); }

std::string toText(const Kernel& k) {
  return commentText(k.comment, "") +
         head("kernel " + k.name, paramTexts(k.dims, k.params, k.isDim)) + "\n" +
         toText(k.body, 1) + "}\n";
}

std::string toText(const KernelModule& m) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "\n") + text; };
  for (const Combine& c : m.combines) add(toText(c));
  for (const IntrinDef& i : m.intrins) add(toText(i));
  for (const Kernel& k : m.kernels) add(toText(k));
  return out;
}

}  // namespace tektite
