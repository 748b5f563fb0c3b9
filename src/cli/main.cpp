#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "cli/cli.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

using Function = int (*)(const Options&);
const std::map<std::string_view, Function>& functions() {
  static const std::map<std::string_view, Function> table = {{"run", run},
                                                             {"compile", compileTo},
                                                             {"opt", opt},
                                                             {"explain", explain},
                                                             {"why", why},
                                                             {"what-if", whatIf},
                                                             {"verify", verifyModel},
                                                             {"bench", bench},
                                                             {"ops", ops},
                                                             {"machine", machine},
                                                             {"help", [](const Options&) {
                                                                std::fputs(optionsTable().c_str(),
                                                                           stdout);
                                                                return kSame;
                                                              }}};
  return table;
}

struct Bound {  // CLI11 writes here
  std::vector<std::string> values;
  bool flag = false;
  CLI::Option* option = nullptr;
};

/// Declares a command with its arguments and options, all from the tables in options.cpp.
void declare(CLI::App& app, const CommandInfo& command, std::map<std::string, Bound>& bound) {
  CLI::App* sub = app.add_subcommand(std::string(command.name), std::string(command.doc));
  for (size_t at = 0; at < command.arguments.size();) {
    const size_t end = std::min(command.arguments.find(' ', at), command.arguments.size());
    std::string name(command.arguments.substr(at, end - at));
    const bool optional = name.front() == '[';
    if (optional) name = name.substr(1, name.size() - 2);
    Bound& b = bound[name];
    b.option = sub->add_option(name, b.values)->expected(1)->allow_extra_args(false);
    if (!optional) b.option->required();
    at = end + 1;
  }
  for (const OptionInfo& info : allOptions()) {
    if (!takes(command, info)) continue;
    Bound& b = bound[std::string(info.name)];
    if (info.argument.empty())
      b.option = sub->add_flag(std::string(info.name), b.flag, std::string(info.doc));
    else
      b.option = sub->add_option(std::string(info.name), b.values, std::string(info.doc))
                     ->type_name(std::string(info.argument))
                     ->allow_extra_args(false);
  }
}

std::string oneLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "tektite: %s\n", oneLine(message).c_str());
  return kWrongUse;
}

int main(int argc, char** argv) {
  CLI::App app("a kernel-fusion compiler for tensor programs", "tektite");
  app.require_subcommand(1);
  std::map<std::string_view, std::map<std::string, Bound>> bound;
  for (const CommandInfo& command : allCommands()) declare(app, command, bound[command.name]);
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && !functions().count(first))
    return fail(fmt::format("'{}' found, expected a command (see `tektite help`)", first));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const auto subs = app.get_subcommands();
    std::fputs(subs.empty() ? optionsTable().c_str() : subs[0]->help().c_str(), stdout);
    return kSame;
  } catch (const CLI::ParseError& error) {
    return fail(fmt::format("{} (see `tektite help`)", error.what()));
  }
  const std::string command = app.get_subcommands()[0]->get_name();
  Options options;
  for (const auto& [name, b] : bound[command]) {
    if (b.flag) options.values[name] = {""};
    if (!b.values.empty()) options.values[name] = b.values;
  }
  return functions().at(command)(options);
}

int guarded(int argc, char** argv) {
  try {
    return main(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& error) {  // UserError; InternalError, which says that it is one
    return fail(error.what());
  }
}

}  // namespace
}  // namespace tektite::cli

int main(int argc, char** argv) { return tektite::cli::guarded(argc, argv); }
