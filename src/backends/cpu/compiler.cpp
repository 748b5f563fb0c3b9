#include "backends/cpu/compiler.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>

#include <mutex>
#include <set>

#include "emit/llvm_text.h"
#include "support/check.h"

namespace tektite {
namespace {

// Scalars out of memory, shared work once, invariants out of loops. No vectoriser and no unroller: the text says what is wanted.
constexpr const char* kPasses =
    "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"
    "simplifycfg)";

void initialiseOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAllTargetInfos();
    LLVMInitializeAllTargets();
    LLVMInitializeAllTargetMCs();
    LLVMInitializeAllAsmPrinters();
    LLVMInitializeAllAsmParsers();
  });
}

std::string take(char* message) {
  std::string text = message ? message : "";
  LLVMDisposeMessage(message);
  return text;
}
std::string take(LLVMErrorRef error) {
  char* message = LLVMGetErrorMessage(error);
  std::string text = message;
  LLVMDisposeErrorMessage(message);
  return text;
}

template <class T, void (*free)(T)>
struct Freed {
  T it = nullptr;
  Freed() = default;
  explicit Freed(T value) : it(value) {}
  Freed(const Freed&) = delete;
  Freed& operator=(const Freed&) = delete;
  ~Freed() {
    if (it) free(it);
  }
  operator T() const { return it; }
};
using Context = Freed<LLVMContextRef, LLVMContextDispose>;
using Module = Freed<LLVMModuleRef, LLVMDisposeModule>;
using Machine = Freed<LLVMTargetMachineRef, LLVMDisposeTargetMachine>;
using Output = Freed<LLVMMemoryBufferRef, LLVMDisposeMemoryBuffer>;
using Options = Freed<LLVMPassBuilderOptionsRef, LLVMDisposePassBuilderOptions>;

/// Keeps LLVM's pass that takes invariants out of loops before registers are given away from functions that say so (kSumsFillRegisters): what
/// the results of a register tile are multiplied with and compared to would wait in registers for the loop in between, and that loop's sums
/// in memory (an inner loop of 56 multiplications with 54 loads and stores, twice the time).
class HoldsInvariants : public llvm::OptPassGate {
 public:
  void add(std::string_view function) { functions_.insert(fmt::format("function ({})", function)); }
  bool isEnabled() const override { return !functions_.empty(); }
  bool shouldRunPass(const llvm::StringRef pass, llvm::StringRef what) override {
    return pass != "Early Machine Loop Invariant Code Motion" || !functions_.count(what.str());
  }

 private:
  std::set<std::string> functions_;
};

LLVMTargetMachineRef machineOf(const Target& target) {
  const std::string triple =
      target.triple.empty() ? take(LLVMGetDefaultTargetTriple()) : target.triple;
  LLVMTargetRef found = nullptr;
  char* message = nullptr;
  if (LLVMGetTargetFromTriple(triple.c_str(), &found, &message))
    userError("target {}: LLVM doesn't know the triple '{}': {}", target.name, triple,
              take(message));
  return LLVMCreateTargetMachine(found, triple.c_str(), target.cpu.c_str(), target.features.c_str(),
                                 LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
}

std::vector<char> compile(const std::string& text, const Target& target, LLVMCodeGenFileType kind) {
  initialiseOnce();
  HoldsInvariants gate;
  const Context context(LLVMContextCreate());
  llvm::unwrap(context)->setOptPassGate(gate);
  Module module;
  char* message = nullptr;
  const LLVMMemoryBufferRef source =
      LLVMCreateMemoryBufferWithMemoryRange(text.c_str(), text.size(), "kernel.ll", 1);
  if (LLVMParseIRInContext(context, source, &module.it, &message))  // takes the buffer
    TEKTITE_CHECK(false, "LLVM IR doesn't parse: {}\n{}", take(message), text);
  if (LLVMVerifyModule(module, LLVMReturnStatusAction, &message))
    TEKTITE_CHECK(false, "LLVM IR doesn't verify: {}\n{}", take(message), text);
  LLVMDisposeMessage(message);
  for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f))
    if (LLVMGetStringAttributeAtIndex(f, LLVMAttributeFunctionIndex, kSumsFillRegisters,
                                      sizeof kSumsFillRegisters - 1)) {
      size_t length = 0;
      const char* name = LLVMGetValueName2(f, &length);
      gate.add({name, length});
    }
  const Machine machine(machineOf(target));
  const Freed<LLVMTargetDataRef, LLVMDisposeTargetData> layout(LLVMCreateTargetDataLayout(machine));
  LLVMSetModuleDataLayout(module, layout);
  LLVMSetTarget(module, take(LLVMGetTargetMachineTriple(machine)).c_str());
  const Options options(LLVMCreatePassBuilderOptions());
  if (LLVMErrorRef error = LLVMRunPasses(module, kPasses, machine, options))
    TEKTITE_CHECK(false, "LLVM's passes: {}", take(error));
  Output out;
  if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, kind, &message, &out.it))
    TEKTITE_CHECK(false, "LLVM emits no code: {}\n{}", take(message), text);
  const char* begin = LLVMGetBufferStart(out);
  return {begin, begin + LLVMGetBufferSize(out)};
}

class JitCode : public LoadedCode {
 public:
  JitCode() {
    initialiseOnce();
    check(LLVMOrcCreateLLJIT(&jit_, nullptr), "create");
    library_ = LLVMOrcLLJITGetMainJITDylib(jit_);
    LLVMOrcDefinitionGeneratorRef process = nullptr;
    check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
              &process, LLVMOrcLLJITGetGlobalPrefix(jit_), nullptr, nullptr),
          "process symbols");
    LLVMOrcJITDylibAddGenerator(library_, process);
  }
  ~JitCode() override {
    if (LLVMErrorRef error = LLVMOrcDisposeLLJIT(jit_)) LLVMConsumeError(error);
  }
  void add(const std::vector<char>& object) override {
    check(LLVMOrcLLJITAddObjectFile(
              jit_, library_,
              LLVMCreateMemoryBufferWithMemoryRangeCopy(object.data(), object.size(), "kernel.o")),
          "add");
  }
  void* find(const std::string& symbol) const override {
    LLVMOrcExecutorAddress address = 0;
    if (LLVMErrorRef error = LLVMOrcLLJITLookup(jit_, &address, symbol.c_str())) {
      LLVMConsumeError(error);
      return nullptr;
    }
    return reinterpret_cast<void*>(address);
  }

 private:
  static void check(LLVMErrorRef error, std::string_view what) {
    if (error) TEKTITE_CHECK(false, "loading code: {}: {}", what, take(error));
  }
  LLVMOrcLLJITRef jit_ = nullptr;
  LLVMOrcJITDylibRef library_ = nullptr;
};

}  // namespace

std::vector<char> compileObject(const std::string& llvmText, const Target& target) {
  return compile(llvmText, target, LLVMObjectFile);
}
std::string compileAssembly(const std::string& llvmText, const Target& target) {
  const std::vector<char> text = compile(llvmText, target, LLVMAssemblyFile);
  return {text.begin(), text.end()};
}
std::unique_ptr<LoadedCode> newLoadedCode() { return std::make_unique<JitCode>(); }

}  // namespace tektite
