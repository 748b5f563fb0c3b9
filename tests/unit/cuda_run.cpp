#include "cuda_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/c_source.h"

namespace tektite {
namespace {

/// The text of a function that launches an artifact on the CPU: buffers and dims as arrays.
void launches(const std::vector<Launch>& list, const Artifact& a, size_t buffers,
              const Kernel& kernel, std::string& out) {
  for (const Launch& l : list) {
    const auto text = [](const Expr& e) { return "(long long)(" + toText(e) + ")"; };
    if (l.kind != Launch::Entry) {
      out += l.kind == Launch::When ? fmt::format("if ({}) {{\n", toText(l.count))
                                    : fmt::format("for (long long {0} = 0; {0} < {1}; {0}++) {{\n",
                                                  l.variable, text(l.count));
      launches(l.body, a, buffers, kernel, out);
      out += "}\n";
      continue;
    }
    std::string arguments;
    for (size_t i = 0; i < buffers; i++)
      arguments += fmt::format("{}buffers[{}]", i ? ", " : "", i);
    for (size_t i = 0; i < a.dims.size(); i++) arguments += fmt::format(", dims[{}]", i);
    for (const std::string& v : l.outer) arguments += ", " + v;
    const std::string blocks =
        l.threads > 1 ? "tiles" : fmt::format("(tiles + {0}) / {1}", kTileGroup - 1, kTileGroup);
    out += fmt::format(
        "{{ const long long tiles = {}; launchOnCpu({}, {}, [&] {{ call({}, {}); }}); }}\n",
        text(l.count), blocks, l.threads > 1 ? l.threads : kTileGroup, l.entry, arguments);
  }
}

std::string hostSource(const Artifact& a, const Kernel& kernel) {
  const size_t buffers =
      kernel.params.size() + a.needs.mainAllocs.size() + (a.needs.counters ? 1 : 0);
  std::string body;
  std::string dims;
  for (size_t i = 0; i < a.dims.size(); i++)
    dims += fmt::format("  const long long {} = dims[{}]; (void){};\n", a.dims[i], i, a.dims[i]);
  launches(a.launches, a, buffers, kernel, body);
  // floor division of what isn't negative is C's: `//` would be a comment
  for (size_t at; (at = body.find("//")) != std::string::npos;) body.replace(at, 2, "/");
  return fmt::format(
      "#include \"{}/cuda_on_cpu.h\"\n{}\n"
      "template <class... P, class... A>\n"
      "void call(void (*kernel)(P...), A... a) {{ kernel((P)a...); }}\n"
      "extern \"C\" void run(void** buffers, const long long* dims) {{\n  (void)dims;\n{}{}}}\n",
      TEKTITE_TESTS, sourceOf({&a}), dims, body);
}

class SharedObject {
 public:
  explicit SharedObject(const std::string& source) {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("tektite-shim-{}-{}", ::getpid(), number++);
    std::ofstream(path_.string() + ".cpp") << source;
    const std::string command = fmt::format(
        "c++ -std=c++20 -O0 -fwrapv -fno-strict-aliasing -ffp-contract=off -w -shared -fPIC "
        "-pthread -o {0}.so {0}.cpp",
        path_.string());
    if (std::system(command.c_str()) == 0)
      handle_ = dlopen((path_.string() + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~SharedObject() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove(path_.string() + ".cpp");
    std::filesystem::remove(path_.string() + ".so");
  }
  using Run = void (*)(void**, const long long*);
  Run run() const { return handle_ ? reinterpret_cast<Run>(dlsym(handle_, "run")) : nullptr; }

 private:
  std::filesystem::path path_;
  void* handle_ = nullptr;
};

}  // namespace

void checkOnCpu(const KernelModule& module, const std::vector<testing::Dims>& shapes,
                const Target& target, double tolerance,
                const std::function<void(testing::Tensors&)>& prepare) {
  const Kernel& kernel = module.kernels[0];
  const Artifact a = emitC(module, kernel, target, Numerics::Ordered, plainCpp());
  const SharedObject object(hostSource(a, kernel));
  ASSERT_TRUE(object.run()) << hostSource(a, kernel);
  for (const testing::Dims& dims : shapes) {
    testing::Tensors expected = testing::makeTensors(kernel, dims, 1);
    if (prepare) prepare(expected);
    testing::Tensors found = expected;
    testing::runKernel(module, expected, dims);
    std::vector<void*> buffers;
    std::vector<std::vector<char>> more;
    std::vector<std::vector<char>> aligned;
    for (const Param& p : kernel.params) {
      const auto& raw = found.at(p.buffer.name).raw;
      aligned.emplace_back(raw.size() + 64);
      char* at = aligned.back().data();
      at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64;
      std::copy(raw.begin(), raw.end(), at);
      buffers.push_back(at);
    }
    for (int64_t size : a.needs.mainAllocs)
      buffers.push_back(more.emplace_back(static_cast<size_t>(size)).data());
    if (a.needs.counters)
      buffers.push_back(more.emplace_back(static_cast<size_t>(a.needs.counters) * 4).data());
    std::vector<long long> values;
    for (const std::string& d : a.dims) values.push_back(dims.at(d));
    object.run()(buffers.data(), values.data());
    for (size_t i = 0; i < kernel.params.size(); i++) {
      const Param& p = kernel.params[i];
      if (p.mode == Param::In) continue;
      testing::Tensor& t = found.at(p.buffer.name);
      const char* at = static_cast<const char*>(buffers[i]);
      std::copy(at, at + t.raw.size(), t.raw.begin());
      double largest = 1;
      t.each([&](const std::vector<int64_t>& index) {
        const double y = expected.at(p.buffer.name)(index);
        if (std::isfinite(y)) largest = std::max(largest, std::fabs(y));
      });
      int wrong = 0;
      t.each([&](const std::vector<int64_t>& index) {
        const double x = t(index), y = expected.at(p.buffer.name)(index);
        const bool same = std::isnan(y) ? std::isnan(x) : std::fabs(x - y) <= tolerance * largest;
        if (!same && wrong++ == 0)
          ADD_FAILURE() << kernel.name << ": " << p.buffer.name << " is " << x << ", expected "
                        << y;
      });
    }
  }
}

}  // namespace tektite
