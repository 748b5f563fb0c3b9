#include <algorithm>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

struct Term {
  Value value;
  std::string labels;
};

/// Labels of one operand, with `dots` for its ellipsis: as many of its last letters as there are axes left.
std::string expanded(const std::string& term, int rank, const std::string& dots) {
  const size_t at = term.find("...");
  if (at == std::string::npos) return term;
  const int extra = rank - static_cast<int>(term.size() - 3);
  if (extra < 0 || extra > static_cast<int>(dots.size()))
    userError("'{}' doesn't fit rank {}", term, rank);
  return term.substr(0, at) + dots.substr(dots.size() - static_cast<size_t>(extra)) +
         term.substr(at + 3);
}

/// A label twice in one operand: its diagonal.
Term withoutRepeats(Builder& b, Term t) {
  std::string labels;
  std::vector<Expr> shape, index;
  for (size_t i = 0; i < t.labels.size(); i++) {
    size_t at = labels.find(t.labels[i]);
    if (at == std::string::npos) {
      at = labels.size();
      labels += t.labels[i];
      shape.push_back(b.type(t.value).shape.at(i));
    }
    index.push_back(var(coordinate(static_cast<int>(at))));
  }
  return labels == t.labels ? t : Term{b.view(t.value, shape, index), labels};
}

/// Sums over the labels that nobody else has, and drops axes of 1 that broadcast against the other operand.
Term prepared(Builder& b, Term t, const std::string& needed, const Term* other) {
  std::vector<int> sum, drop;
  for (size_t i = 0; i < t.labels.size(); i++) {
    const char label = t.labels[i];
    const size_t there = other ? other->labels.find(label) : std::string::npos;
    if (needed.find(label) == std::string::npos && there == std::string::npos)
      sum.push_back(static_cast<int>(i));
    else if (there != std::string::npos && isConstant(b.type(t.value).shape.at(i), 1) &&
             !isConstant(b.type(other->value).shape.at(there), 1))
      drop.push_back(static_cast<int>(i));
  }
  if (!sum.empty()) t.value = b.reduce("sum", t.value, sum);
  drop.insert(drop.end(), sum.begin(), sum.end());
  std::sort(drop.begin(), drop.end());
  t.value = squeeze(b, t.value, drop);
  std::string labels;
  for (size_t i = 0; i < t.labels.size(); i++)
    if (!std::binary_search(drop.begin(), drop.end(), static_cast<int>(i))) labels += t.labels[i];
  t.labels = labels;
  return t;
}

/// Without an arrow: the labels that occur once, sorted, after the ellipsis.
std::string impliedOutput(const std::vector<std::string>& terms) {
  std::string all, out;
  bool dots = false;
  for (const std::string& t : terms) {
    dots = dots || t.find("...") != std::string::npos;
    for (const char c : t)
      if (c != '.') all += c;
  }
  std::sort(all.begin(), all.end());
  for (const char c : all)
    if (std::count(all.begin(), all.end(), c) == 1) out += c;
  return (dots ? "..." : "") + out;
}

const OpDef einsum{
    "Einsum", [](Builder& b, const OpCall& c) -> Values {
      std::string equation = c.text("equation");
      std::erase(equation, ' ');
      const size_t arrow = equation.find("->");
      std::vector<std::string> terms(1);
      for (const char ch : equation.substr(0, arrow)) {
        if (ch == ',')
          terms.emplace_back();
        else
          terms.back() += ch;
      }
      std::string output =
          arrow == std::string::npos ? impliedOutput(terms) : equation.substr(arrow + 2);
      if (terms.size() != c.in.size())
        userError("attribute 'equation' has {} operands, the node {}", terms.size(), c.in.size());
      int most = 0;
      for (size_t i = 0; i < terms.size(); i++)
        if (terms[i].find("...") != std::string::npos)
          most = std::max(most, b.rank(c.at(i)) - static_cast<int>(terms[i].size() - 3));
      std::string dots;
      for (char ch = 'z'; ch >= 'a' && static_cast<int>(dots.size()) < most; ch--)
        if (equation.find(ch) == std::string::npos) dots.insert(dots.begin(), ch);
      output = expanded(output, static_cast<int>(output.size()) - 3 + most, dots);

      std::vector<Term> all;
      for (size_t i = 0; i < terms.size(); i++) {
        const std::string labels = expanded(terms[i], b.rank(c.at(i)), dots);
        if (static_cast<int>(labels.size()) != b.rank(c.at(i)))
          userError("'{}' doesn't fit rank {}", terms[i], b.rank(c.at(i)));
        all.push_back(withoutRepeats(b, {c.at(i), labels}));
      }
      const DType t = b.dtype(c.at(0));
      Term left = all.at(0);
      for (size_t i = 1; i < all.size(); i++) {
        std::string needed = output;
        for (size_t j = i + 1; j < all.size(); j++) needed += all[j].labels;
        const Term x = prepared(b, left, needed, &all[i]), y = prepared(b, all[i], needed, &x);
        std::string result;
        for (const char label : x.labels + y.labels)
          if (needed.find(label) != std::string::npos && result.find(label) == std::string::npos)
            result += label;
        left = {b.contract(x.labels + "," + y.labels + "->" + result, x.value, y.value,
                           accumulatorOf(t)),
                result};
      }
      left = prepared(b, left, output, nullptr);
      std::vector<int> order;
      for (const char label : output) {
        if (left.labels.find(label) == std::string::npos)
          userError("label '{}' of the result is in no operand", label);
        order.push_back(static_cast<int>(left.labels.find(label)));
      }
      return b.convert(b.transpose(left.value, order), t);
    }};

}  // namespace
}  // namespace tektite
