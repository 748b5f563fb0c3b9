#include "ops/op.h"

#include <algorithm>
#include <tuple>

#include "support/check.h"

namespace tektite {
namespace {

std::vector<const OpDef*>& registry() {
  static std::vector<const OpDef*> all;
  return all;
}

template <class T>
T get(const Attribute& a, std::string_view name, std::string_view expected) {
  if (const T* value = std::get_if<T>(&a)) return *value;
  userError("attribute '{}' is {}, expected {}", name, kindOf(a), expected);
}

}  // namespace

std::string_view kindOf(const Attribute& a) {
  static constexpr std::string_view kinds[] = {
      "an integer",        "a number",          "a string", "a list of integers",
      "a list of numbers", "a list of strings", "a tensor", "a graph"};
  return kinds[a.index()];
}

Value OpCall::at(size_t input) const {
  if (!has(input)) userError("input {} is missing", input);
  return in[input];
}

const Attribute* OpCall::find(std::string_view attribute, bool required) const {
  const auto at = attributes.find(std::string(attribute));
  if (at != attributes.end()) return &at->second;
  if (required) userError("attribute '{}' is missing", attribute);
  return nullptr;
}

int64_t OpCall::integer(std::string_view name, std::optional<int64_t> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<int64_t>(*a, name, "an integer") : *otherwise;
}

double OpCall::real(std::string_view name, std::optional<double> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<double>(*a, name, "a number") : *otherwise;
}

std::string OpCall::text(std::string_view name, std::optional<std::string> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<std::string>(*a, name, "a string") : *otherwise;
}

std::vector<int64_t> OpCall::integers(std::string_view name,
                                      std::optional<std::vector<int64_t>> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<std::vector<int64_t>>(*a, name, "a list of integers") : *otherwise;
}

std::vector<double> OpCall::reals(std::string_view name,
                                  std::optional<std::vector<double>> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<std::vector<double>>(*a, name, "a list of numbers") : *otherwise;
}

std::vector<std::string> OpCall::texts(std::string_view name,
                                       std::optional<std::vector<std::string>> otherwise) const {
  const Attribute* a = find(name, !otherwise);
  return a ? get<std::vector<std::string>>(*a, name, "a list of strings") : *otherwise;
}

const TensorAttribute& OpCall::tensor(std::string_view name) const {
  const Attribute& a = *find(name, true);
  if (const auto* t = std::get_if<TensorAttribute>(&a)) return *t;
  userError("attribute '{}' is {}, expected a tensor", name, kindOf(a));
}

const Body& OpCall::body(std::string_view name) const {
  const Attribute& a = *find(name, true);
  if (const auto* t = std::get_if<Body>(&a)) return *t;
  userError("attribute '{}' is {}, expected a graph", name, kindOf(a));
}

std::string NeedValue::refusal() const {
  return what + " is computed from data, expected one that follows from shapes";
}

OpDef::OpDef(std::string_view name, OpFunction build, int since, std::string_view domain)
    : name(name), build(std::move(build)), since(since), domain(domain) {
  registry().push_back(this);
}

OpDef::OpDef(std::string_view name, Takes takes, OpFunction build, int since,
             std::string_view domain)
    : OpDef(name, std::move(build), since, domain) {
  this->takes = takes;
}

OpDef::OpDef(std::string_view name, const char* text, int since, std::string_view domain)
    : OpDef(name, Takes{}, text, since, domain) {}

OpDef::OpDef(std::string_view name, Takes takes, const char* text, int since,
             std::string_view domain)
    : OpDef(
          name, takes,
          [text](Builder& b, const OpCall& c) -> Values {
            for (size_t i = 0; i < std::max<size_t>(c.in.size(), 1); i++) c.at(i);
            return b.map(text, c.in);
          },
          since, domain) {
  scalar = text;
}

const OpDef* findOp(std::string_view domain, std::string_view name, int opset) {
  if (domain == "ai.onnx") domain = "";
  const OpDef* found = nullptr;
  for (const OpDef* d : registry())
    if (d->name == name && d->domain == domain && d->since <= opset &&
        (!found || d->since > found->since))
      found = d;
  return found;
}

std::vector<const OpDef*> allOpDefs() {
  std::vector<const OpDef*> all = registry();
  std::sort(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) {
    return std::tie(a->domain, a->name, a->since) < std::tie(b->domain, b->name, b->since);
  });
  return all;
}

const OpDef& needOp(std::string_view domain, std::string_view name, int opset) {
  if (const OpDef* def = findOp(domain, name, opset)) return *def;
  userError("unsupported operator {} (version {} of '{}')", name, opset,
            domain.empty() ? "ai.onnx" : domain);
}

namespace {
std::vector<Value> built(const OpDef& def, Builder& b, const OpCall& call) {
  const auto half = computedWide(b, call, def.takes);
  if (!half) return def.build(b, call);
  OpCall wide = call;
  for (Value& v : wide.in)
    if (v && b.dtype(v) == *half) v = b.convert(v, DType::F32);
  std::vector<Value> results = def.build(b, wide);
  for (Value& v : results)
    if (v && b.dtype(v) == DType::F32) v = b.convert(v, *half);
  return results;
}

std::vector<Value> defined(const OpDef& def, Builder& b, const OpCall& call) {
  checkOperands(b, call, def.takes);
  const size_t before = b.graph.nodes.size();
  std::vector<Value> results = built(def, b, call);
  for (size_t n = before; n < b.graph.nodes.size(); n++)
    for (const TensorType& t : b.graph.nodes[n].results) {
      constexpr double kMostElements = 0x1p59;  // their bytes are a 64-bit number
      double elements = 1;
      for (const Expr& extent : t.shape) {
        const auto size = asInteger(extent);
        if (size && *size < 0) userError("a result of shape {} has a negative extent", toText(t));
        if (size) elements *= static_cast<double>(*size);
      }
      if (elements > kMostElements)
        userError("a result of shape {} has more elements than can be counted", toText(t));
    }
  return results;
}
}  // namespace

std::vector<Value> buildOp(Builder& b, const OpCall& call, std::string_view domain) {
  std::vector<Value> results = defined(needOp(domain, call.op, call.opset), b, call);
  if (static_cast<int>(results.size()) < call.outputs)
    userError("{} results are wanted, {} {} supported", call.outputs, results.size(),
              results.size() == 1 ? "is" : "are");
  return results;
}

std::string opsMarkdown() {
  std::string out = "| operator | from version | as scalar text |\n|---|---|---|\n";
  for (const OpDef* d : allOpDefs())
    out += fmt::format("| {}{}{} | {} | {} |\n", d->domain, d->domain.empty() ? "" : ".", d->name,
                       d->since, d->scalar.empty() ? "" : fmt::format("`{}`", d->scalar));
  return out;
}

}  // namespace tektite
