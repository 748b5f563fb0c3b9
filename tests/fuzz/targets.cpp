// What reads what users write, given any bytes: it may refuse them with a UserError, and do nothing else wrong. TEKTITE_FUZZ_TARGET is one of
// the functions here; libFuzzer drives it (tools/test_fuzz.sh), or mutate.cpp.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "ir/expr_text.h"
#include "ir/graph.h"
#include "ir/kernel.h"
#include "ir/target.h"
#include "onnx/import.h"
#include "support/check.h"

namespace tektite {
namespace {

/// A file without a folder, for what reads from files.
class MemoryFile {
 public:
  MemoryFile(std::string_view bytes, const char* name) : file_(memfd_create(name, 0)) {
    if (file_ < 0 || write(file_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("no memory file");
  }
  MemoryFile(const MemoryFile&) = delete;
  ~MemoryFile() { close(file_); }
  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

[[maybe_unused]] void importer(std::string_view bytes) {
  const MemoryFile file(bytes, "model.onnx");
  const OpenedModel model = openModel(file.path());
  if (model.graph) verify(*model.graph);
}
[[maybe_unused]] void graphs(std::string_view text) {
  const Graph g = parseGraph(text, "text");
  if (toText(parseGraph(toText(g), "printed")) != toText(g)) std::abort();
}
[[maybe_unused]] void kernels(std::string_view text) {
  const KernelModule m = parseKernels(text, "text");
  if (toText(parseKernels(toText(m), "printed")) != toText(m)) std::abort();
}
[[maybe_unused]] void expressions(std::string_view text) {
  const Expr e =
      parseScalar(text, {{"a", DType::F32}, {"b", DType::F32}, {"i", DType::I64}}, DType::F32);
  toText(e);
}
[[maybe_unused]] void targets(std::string_view text) {
  const MemoryFile file(text, "target.toml");
  findTarget(file.path());
}

}  // namespace
}  // namespace tektite

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  try {
    tektite::TEKTITE_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  } catch (const tektite::UserError&) {
  }
  return 0;
}
