#include "support/options.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>

#include "support/check.h"

namespace tektite {
namespace {

constexpr CommandInfo kCommands[] = {
    {"run", "[MODEL]", "compile a model, run it, and compare or write its outputs"},
    {"compile", "MODEL", "write what was decided and generated, in numbered files"},
    {"opt", "FILE", "run passes on a graph text or a model and print the graph"},
    {"explain", "MODEL", "which nodes became which kernels, what they move, and why not more"},
    {"why", "MODEL A B", "the verdict on one edge: from node A to node B"},
    {"what-if", "MODEL",
     "what --fuse and --cut would change: launches, bytes, predicted time, verdicts"},
    {"verify", "MODEL", "fused against unfused against interpreted in double precision"},
    {"bench", "MODEL", "time a model"},
    {"ops", "", "the supported operators"},
    {"machine", "", "what was found of this machine, or of another target"},
    {"help", "", "commands and options"}};

constexpr OptionInfo kOptions[] = {
    {"--dim", "NAME=N", "model opt", "", "a number for a named dim; others are 1"},
    {"--target", "NAME", "model opt machine", "host",
     "a preset (cpu, opencl, cuda, gpu-class, npu:...), a TOML file, or `interpret` (no code: the "
     "graph interpreter)",
     "TEKTITE_TARGET"},
    {"--arch", "NAME", "model opt machine", "", "of --target=cuda: sm_80, sm_86, sm_89, sm_90"},
    {"--set", "NAME=VALUE", "model opt machine", "",
     "another value for a number of the target, as `machine` prints them; shared.bytes=N for a "
     "level's"},
    {"--threads", "N", "model", "0", "threads of a run; 0: all cores", "TEKTITE_THREADS"},
    {"--unfused", "", "model opt", "", "one kernel a node of the model"},
    {"--numerics", "MODE", "model opt", "ordered", "strict, ordered or fast"},
    {"--fuse", "A,B", "model", "", "nodes A and B in one kernel, with all that lies between them"},
    {"--cut", "A,B", "model", "", "nodes A and B never in one kernel; `*` for B: A with no other"},
    {"--allow-fallback", "", "model", "",
     "let the graph interpreter execute what can't be a kernel, and print each such node with its "
     "cost"},
    {"--profile", "FILE", "model opt", "",
     "measured times: groups that were slower than their parts are split"},
    {"--json", "", "run compile explain why what-if verify bench ops machine", "",
     "one JSON document on standard output"},
    {"--inputs", "DIR", "model", "",
     "input_<i>.pb or .npy; random ones otherwise. `run`: several, DIR,DIR,... in one session"},
    {"--seed", "N", "model", "1", "of random inputs"},
    {"--expect", "DIR", "run", "", "output_<i>.pb or .npy to compare with"},
    {"--rtol", "T", "run verify", "1e-3", "allowed: |a - b| <= atol + rtol |b|"},
    {"--atol", "T", "run verify", "1e-7", ""},
    {"--max-rel", "T", "run verify", "", "allowed instead: |a - b| <= T max|b| of the output"},
    {"--builtin", "NAME", "run", "", "a model that is built in: transformer-block"},
    {"-o", "DIR", "run compile", "", "where to write: output_<i>.npy, or what was generated"},
    {"--time", "S", "bench", "1", "seconds to measure"},
    {"--vs", "WHAT", "bench", "", "also time `unfused`, in turn, and compare pairs"},
    {"--write-profile", "FILE", "bench", "",
     "the times of all kernels, fused and unfused, for --profile"},
    {"--worker", "", "bench", "", "JSON lines on standard input and output"},
    {"--passes", "A,B,...", "opt", "", "which passes, in order; the pipeline's otherwise"},
    {"--markdown", "", "ops", "", "as a table in Markdown"},
    {"--measure", "", "machine", "", "also FMA peak and bandwidths, by running"},
    {"--edges", "", "explain", "", "every edge's verdict"},
    {"--sweep", "NAME=A,B,...", "explain", "",
     "only totals, for several values of launch-us, scratch-bytes, main-gbs or a number that --set "
     "names"},
    {"--trace", "FILE", "explain", "",
     "also what each engine of an npu: target does when, simulated, for Chrome or Perfetto"},
    {"--html", "FILE", "explain", "",
     "also one page: kernels, their loops and code, and every verdict"},
    {"--cache-dir", "DIR", "model", "",
     "where compiled code is kept; $XDG_CACHE_HOME/tektite otherwise", "TEKTITE_CACHE"},
    {"--no-cache", "", "model", "", "neither read nor write compiled code on disk"},
    {"--print-after", "PASS", "model opt", "",
     "print the graph after a pass (or `all`) to standard error"},
    {"--stop-after", "PASS", "model opt", "", "leave out the passes that follow"},
    {"--disable", "PASS", "model opt", "", "leave out a pass"},
    {"--bisect", "N", "model opt", "-1", "run only the first N passes"},
    {"--dump", "DIR", "model opt", "", "write the graph after each pass into numbered files"},
    {"--time-passes", "", "model opt", "", "print how long each pass took to standard error"}};

bool hasWord(std::string_view words, std::string_view word) {
  for (size_t at = 0; at < words.size();) {
    const size_t end = std::min(words.find(' ', at), words.size());
    if (words.substr(at, end - at) == word) return true;
    at = end + 1;
  }
  return false;
}

const OptionInfo* optionNamed(std::string_view name) {
  const auto* at = std::find_if(std::begin(kOptions), std::end(kOptions),
                                [&](const OptionInfo& o) { return o.name == name; });
  return at == std::end(kOptions) ? nullptr : at;
}

const char* variableOf(const OptionInfo* option) {
  const char* value = option && !option->variable.empty()
                          ? std::getenv(std::string(option->variable).c_str())
                          : nullptr;
  return value && *value ? value : nullptr;
}

template <class T>
T numberOf(std::string_view option, const std::string& text, const char* expected) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    userError("{}: '{}' found, expected {}", option, text, expected);
  return value;
}

}  // namespace

std::span<const CommandInfo> allCommands() { return kCommands; }
std::span<const OptionInfo> allOptions() { return kOptions; }

bool takes(const CommandInfo& command, const OptionInfo& option) {
  return hasWord(option.commands, command.name) ||
         (hasWord(option.commands, "model") &&
          command.arguments.find("MODEL") != command.arguments.npos);
}

std::string optionsTable() {
  std::string text = "tektite COMMAND [ARGUMENT...] [OPTION...]\n\ncommands\n";
  for (const CommandInfo& c : kCommands)
    text += fmt::format("  {:<22} {}\n", fmt::format("{} {}", c.name, c.arguments), c.doc);
  text += "\noptions (of: model = every command that takes a model)\n";
  for (const OptionInfo& o : kOptions) {
    std::string doc(o.doc);
    if (!o.standard.empty()) doc += fmt::format("{}[{}]", doc.empty() ? "" : " ", o.standard);
    if (!o.variable.empty()) doc += fmt::format(" (${})", o.variable);
    text += fmt::format("  {:<22} {:<20} {}\n", fmt::format("{} {}", o.name, o.argument),
                        fmt::format("{}", o.commands), doc);
  }
  return text;
}

bool Options::given(std::string_view name) const {
  return values.find(name) != values.end() || variableOf(optionNamed(name));
}

std::string Options::text(std::string_view name) const {
  if (const auto at = values.find(name); at != values.end() && !at->second.empty())
    return at->second.back();
  const OptionInfo* option = optionNamed(name);
  if (const char* variable = variableOf(option)) return variable;
  return option ? std::string(option->standard) : "";
}

std::vector<std::string> Options::texts(std::string_view name) const {
  std::vector<std::string> all;
  const auto at = values.find(name);
  if (at == values.end()) return all;
  for (const std::string& value : at->second) {
    for (size_t from = 0; from <= value.size();) {
      const size_t end = std::min(value.find(',', from), value.size());
      if (end > from) all.push_back(value.substr(from, end - from));
      from = end + 1;
    }
  }
  return all;
}

int64_t Options::integer(std::string_view name) const {
  return numberOf<int64_t>(name, text(name), "a whole number");
}
double Options::real(std::string_view name) const {
  return numberOf<double>(name, text(name), "a number");
}

}  // namespace tektite
