#include "support/lexer.h"

#include <charconv>

#include "support/check.h"

namespace tektite {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

constexpr std::string_view longSigns[] = {
    "----", "<-", "->", "//", "<=", "==", "=>", "+=", "*=", "&=", "|=", ".."};

}  // namespace

Lexer::Lexer(std::string_view text, std::string file) : file_(std::move(file)) {
  int line = 1;
  size_t lineStart = 0, i = 0;
  const auto push = [&](Token::Kind kind, size_t from, size_t length) {
    tokens_.push_back(
        {kind, text.substr(from, length), line, static_cast<int>(from - lineStart) + 1});
  };
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n') {
      line++;
      lineStart = ++i;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      i++;
    } else if (c == '#') {
      while (i < text.size() && text[i] != '\n') i++;
    } else if (c == 'x' && i > 0 && digit(text[i - 1]) && i + 1 < text.size() &&
               digit(text[i + 1])) {
      push(Token::Sign, i++, 1);
    } else if (letter(c) || (c == '$' && i + 1 < text.size() && digit(text[i + 1]))) {
      size_t end = i + 1;
      while (end < text.size() && (letter(text[end]) || digit(text[end]) || text[end] == '.') &&
             text.substr(end, 2) != "..")
        end++;
      push(Token::Name, i, end - i);
      i = end;
    } else if (digit(c)) {
      size_t end = i + 1;
      while (end < text.size() && digit(text[end])) end++;
      if (end + 1 < text.size() && text[end] == '.' && digit(text[end + 1]))
        for (end++; end < text.size() && digit(text[end]);) end++;
      if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
        size_t exponent = end + 1;
        if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) exponent++;
        if (exponent < text.size() && digit(text[exponent]))
          for (end = exponent; end < text.size() && digit(text[end]);) end++;
      }
      push(Token::Number, i, end - i);
      i = end;
    } else if (c == '"') {
      const size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos)
        userError("{}:{}: a string without its closing quote", file_, line);
      push(Token::String, i + 1, end - i - 1);
      i = end + 1;
    } else {
      size_t length = 1;
      for (std::string_view sign : longSigns)
        if (text.substr(i, sign.size()) == sign) {
          length = sign.size();
          break;
        }
      push(Token::Sign, i, length);
      i += length;
    }
  }
  tokens_.push_back({Token::End, "", line, static_cast<int>(i - lineStart) + 1});
}

const Token& Lexer::peek(int ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}
Token Lexer::next() {
  const Token t = peek();
  if (at_ + 1 < tokens_.size()) at_++;
  return t;
}
bool Lexer::at(std::string_view text) const {
  return peek().text == text && (peek().kind == Token::Sign || peek().kind == Token::Name);
}
bool Lexer::accept(std::string_view text) { return at(text) && (next(), true); }
void Lexer::expect(std::string_view text) {
  if (!accept(text)) fail(fmt::format("'{}'", text));
}
std::string Lexer::name(std::string_view what) {
  if (peek().kind != Token::Name) fail(what);
  return std::string(next().text);
}
int64_t Lexer::integer(std::string_view what) {
  const bool minus = accept("-");
  if (peek().kind != Token::Number) fail(what);
  const Token t = next();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), value);
  if (error != std::errc() || end != t.text.data() + t.text.size())
    failAt(t, fmt::format("expected {}, found '{}'", what, t.text));
  return minus ? -value : value;
}
void Lexer::fail(std::string_view expected) const {
  const Token& t = peek();
  failAt(t, t.kind == Token::End ? fmt::format("expected {}, found the end", expected)
                                 : fmt::format("expected {}, found '{}'", expected, t.text));
}
void Lexer::failAt(const Token& t, std::string_view message) const {
  userError("{}:{}:{}: {}", file_, t.line, t.column, message);
}

}  // namespace tektite
