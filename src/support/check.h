#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace tektite {

/// Their input is wrong. The message is one line, lower case: the place first, what was found, what was expected.
struct UserError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A bug of ours. The library never aborts: this is thrown by TEKTITE_CHECK and reported by whoever runs it.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

template <class... Args>
[[noreturn]] void userError(fmt::format_string<Args...> format, Args&&... args) {
  throw UserError(fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void checkFailed(const char* file, int line, const char* condition,
                              fmt::format_string<Args...> format, Args&&... args) {
  throw InternalError(fmt::format("{}:{}: internal error: {}: {}", file, line, condition,
                                  fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace tektite

/// Always on. TEKTITE_CHECK(condition, "format", args...): give the offending IR as an argument.
#define TEKTITE_CHECK(condition, ...)                                                      \
  do {                                                                                     \
    if (!(condition)) ::tektite::checkFailed(__FILE__, __LINE__, #condition, __VA_ARGS__); \
  } while (false)
