#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tektite {

/// A command of `tektite`: its positional arguments, in order. One in brackets may be left out.
struct CommandInfo {
  std::string_view name, arguments, doc;
};
/// An option. `commands`: those that take it, "model" for each that takes a model. No argument: a flag. `variable`: the environment
/// variable that sets it where the command line doesn't.
struct OptionInfo {
  std::string_view name, argument, commands, standard, doc;
  std::string_view variable = "";
};
std::span<const CommandInfo> allCommands();
std::span<const OptionInfo> allOptions();
bool takes(const CommandInfo&, const OptionInfo&);
std::string optionsTable();  ///< what `tektite help` prints

/// The arguments and options of one use. A name that is in no table is our bug.
class Options {
 public:
  std::map<std::string, std::vector<std::string>, std::less<>>
      values;                                     ///< as given; a flag has one, empty value
  bool given(std::string_view name) const;        ///< on the command line or by its variable
  std::string text(std::string_view name) const;  ///< the last one given, else the standard one
  std::vector<std::string> texts(
      std::string_view name) const;              ///< all that were given, split at commas
  int64_t integer(std::string_view name) const;  ///< UserError where it is no number
  double real(std::string_view name) const;
};

}  // namespace tektite
