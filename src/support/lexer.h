#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tektite {

struct Token {
  enum Kind { Name, Number, Sign, String, End } kind = End;
  std::string_view text;  ///< of a String: without its quotes
  int line = 1, column = 1;
};

/// The one tokenizer, for graphs, kernels, rules and schedules. Names `[A-Za-z_][A-Za-z0-9_.]*` and `$12`; numbers (a minus is a
/// sign of its own); strings in double quotes without escapes; signs, the longest that fits. Between two digits `x` is a sign.
/// `#` starts a comment. The text must outlive the lexer. Errors are UserErrors `file:line:column: message`.
class Lexer {
 public:
  Lexer(std::string_view text, std::string file);
  const Token& peek(int ahead = 0) const;  ///< End for ever at the end
  Token next();
  bool at(std::string_view text) const;  ///< is the next token this sign or name?
  bool accept(std::string_view text);    ///< takes it if so
  void expect(std::string_view text);    ///< error where it is another
  std::string name(
      std::string_view what);  ///< takes a name; `what` is for the error: "a buffer's name"
  int64_t integer(std::string_view what);  ///< takes an integer, with a minus if there is one
  [[noreturn]] void fail(
      std::string_view expected) const;  ///< "expected ..., found '...'", at the next token
  [[noreturn]] void failAt(const Token&, std::string_view message) const;
  size_t position() const { return at_; }
  void rewind(size_t position) { at_ = position; }

 private:
  std::string file_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace tektite
