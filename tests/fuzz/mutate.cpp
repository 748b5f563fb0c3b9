// mutate COUNT FILE...: each file with bytes changed, dropped, doubled, cut off or taken from another, COUNT times in all, by a fixed seed.
// A target that takes longer than ten seconds, or more than 4 GiB, is ended, and so the run fails; what was tried last stands in mutate.last.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace {

std::string current;

/// Leaves what was tried, and ends as the signal would.
void leave(int signal) {
  if (FILE* f = std::fopen("mutate.last", "wb")) {
    std::fwrite(current.data(), 1, current.size(), f);
    std::fclose(f);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

using Random = std::mt19937_64;
size_t below(Random& r, size_t n) { return n ? r() % n : 0; }

void change(std::string& s, const std::vector<std::string>& all, Random& r) {
  if (s.empty()) s.push_back(static_cast<char>(r()));
  const size_t at = below(r, s.size()), n = 1 + below(r, r() % 4 ? 8 : 200);
  switch (r() % 7) {
    case 0: s[at] = static_cast<char>(s[at] ^ (1 << r() % 8)); break;
    case 1: s[at] = static_cast<char>(r()); break;
    case 2: s.erase(at, n); break;
    case 3: s.insert(at, s.substr(below(r, s.size()), n)); break;
    case 4: s.resize(at); break;
    case 5: {
      const std::string& other = all[below(r, all.size())];
      if (!other.empty()) s.replace(at, n, other.substr(below(r, other.size()), n));
      break;
    }
    default:  // a number that is too large, or negative
      for (size_t i = at; i < s.size() && i < at + 5; i++) s[i] = static_cast<char>(0xff);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  std::vector<std::string> all;
  for (int i = 2; i < argc; i++) {
    std::ifstream in(argv[i], std::ios::binary);
    all.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  const rlimit memory{rlim_t{4} << 30, rlim_t{4} << 30};
  if (!getenv("ASAN_OPTIONS")) setrlimit(RLIMIT_AS, &memory);
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, leave);
  Random r(20261);
  const int count = std::atoi(argv[1]);
  for (int i = 0; i < count; i++) {
    std::string& s = current;
    s = all[static_cast<size_t>(i) % all.size()];
    for (size_t n = i < static_cast<int>(all.size()) ? 0 : 1 + below(r, 4); n-- > 0;)
      change(s, all, r);
    alarm(10);
    try {
      LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(s.data()), s.size());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "input %d: %s\n", i, e.what());
      std::ofstream("mutate.fail." + std::to_string(i), std::ios::binary) << s;
      if (!std::getenv("MUTATE_GO_ON")) return 1;
    }
  }
  return 0;
}
