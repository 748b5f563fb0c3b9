#include <charconv>

#include "ops/op.h"
#include "support/check.h"

namespace tektite {
namespace {

struct Operand {
  char kind = '*';
  int least = 0, most = 1 << 20;  // of its rank

  explicit Operand(std::string_view word) : kind(word[0]) {
    const char *at = word.data() + 1, *end = word.data() + word.size();
    if (at == end) return;
    at = std::from_chars(at, end, least).ptr;
    if (at == end)
      most = least;
    else if (*at == '-')
      std::from_chars(at + 1, end, most);
  }
  bool fits(DType type, DType first) const {
    switch (kind) {
      case 'F':
      case 'f': return isFloat(type);
      case 'i': return isInteger(type);
      case 'N':
      case 'n': return type != DType::Bool;
      case 'b': return type == DType::Bool;
      case '=': return type == first;
      default: return true;
    }
  }
  std::string text(DType first) const {
    std::string out = kind == 'f' || kind == 'F'   ? "floats"
                      : kind == 'i'                ? "integers"
                      : kind == 'n' || kind == 'N' ? "numbers"
                      : kind == 'b'                ? "bools"
                      : kind == '='                ? std::string(name(first))
                                                   : "";
    if (least == 0 && most > 64) return out;
    if (!out.empty()) out += " of ";
    if (most == least) return out + fmt::format("rank {}", least);
    if (most > 64) return out + fmt::format("at least rank {}", least);
    return out + fmt::format("rank {} to {}", least, most);
  }
};

struct Operands {
  std::vector<Operand> each;
  bool any = false;  // number of the last

  explicit Operands(std::string_view words) {
    while (!words.empty()) {
      const size_t end = std::min(words.find(' '), words.size());
      std::string_view word = words.substr(0, end);
      if (word.ends_with("...")) {
        any = true;
        word.remove_suffix(3);
      }
      each.emplace_back(word);
      words.remove_prefix(std::min(end + 1, words.size()));
    }
  }
};

}  // namespace

void checkOperands(const Builder& b, const OpCall& call, Takes takes) {
  if (takes.words.empty()) return;
  const Operands wanted(takes.words);
  size_t given = call.in.size();
  while (given > 0 && !call.in[given - 1]) given--;
  if (given > wanted.each.size() && !wanted.any)
    userError("{} inputs, expected at most {}", given, wanted.each.size());
  const DType first = call.has(0) ? b.dtype(call.in[0]) : DType::F32;
  for (size_t i = 0; i < given; i++) {
    if (!call.has(i)) continue;
    const Operand& o = wanted.each[std::min(i, wanted.each.size() - 1)];
    const TensorType& found = b.type(call.in[i]);
    if (!o.fits(found.dtype, first) || found.rank() < o.least || found.rank() > o.most)
      userError("input {} is {}, expected {}", i, toText(found), o.text(first));
  }
}

std::optional<DType> computedWide(const Builder& b, const OpCall& call, Takes takes) {
  if (takes.words.empty() || !call.has(0)) return std::nullopt;
  const DType first = b.dtype(call.in[0]);
  const bool wide = takes.words[0] == 'F' || takes.words[0] == 'N';
  if (!wide || !isFloat(first) || bits(first) >= 32) return std::nullopt;
  return first;
}

}  // namespace tektite
