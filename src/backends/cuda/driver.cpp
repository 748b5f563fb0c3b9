#include "backends/cuda/driver.h"

#include <dlfcn.h>

#include <unordered_map>

#include "backends/launches.h"
#include "support/check.h"

namespace tektite {
namespace {

// The part of the driver's and NVRTC's interfaces that is used here, as their headers declare it.
using Pointer = unsigned long long;  // CUdeviceptr

struct Library {
  void* handle = nullptr;
  explicit Library(std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  template <class F>
  bool bind(F*& function, const char* name) {
    function = handle ? reinterpret_cast<F*>(dlsym(handle, name)) : nullptr;
    return function != nullptr;
  }
};

struct Driver {
  Library cuda{"libcuda.so.1", "libcuda.so"};
  Library nvrtc{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  int (*init)(unsigned);
  int (*deviceGet)(int*, int);
  int (*deviceName)(char*, int, int);
  int (*deviceAttribute)(int*, int, int);
  int (*retainContext)(void**, int);
  int (*releaseContext)(int);
  int (*setContext)(void*);
  int (*memAlloc)(Pointer*, size_t);
  int (*memFree)(Pointer);
  int (*memSet)(Pointer, unsigned char, size_t);
  int (*toDevice)(Pointer, const void*, size_t);
  int (*toHost)(void*, Pointer, size_t);
  int (*within)(Pointer, Pointer, size_t, void*);
  int (*moduleLoad)(void**, const void*);
  int (*moduleUnload)(void*);
  int (*moduleFunction)(void**, void*, const char*);
  int (*functionAttribute)(void*, int, int);
  int (*launchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      void*, void**, void**);
  int (*streamCreate)(void**, unsigned);
  int (*streamDestroy)(void*);
  int (*streamSynchronize)(void*);
  int (*eventCreate)(void**, unsigned);
  int (*eventRecord)(void*, void*);
  int (*eventSynchronize)(void*);
  int (*eventElapsed)(float*, void*, void*);
  int (*eventDestroy)(void*);
  int (*programCreate)(void**, const char*, const char*, int, const char* const*,
                       const char* const*);
  int (*programCompile)(void*, int, const char* const*);
  int (*programLogSize)(void*, size_t*);
  int (*programLog)(void*, char*);
  int (*cubinSize)(void*, size_t*);
  int (*cubin)(void*, char*);
  int (*programDestroy)(void**);
  bool complete = false;

  Driver() {
    complete =
        cuda.bind(init, "cuInit") && cuda.bind(deviceGet, "cuDeviceGet") &&
        cuda.bind(deviceName, "cuDeviceGetName") &&
        cuda.bind(deviceAttribute, "cuDeviceGetAttribute") &&
        cuda.bind(retainContext, "cuDevicePrimaryCtxRetain") &&
        cuda.bind(releaseContext, "cuDevicePrimaryCtxRelease_v2") &&
        cuda.bind(setContext, "cuCtxSetCurrent") && cuda.bind(memAlloc, "cuMemAlloc_v2") &&
        cuda.bind(memFree, "cuMemFree_v2") && cuda.bind(memSet, "cuMemsetD8_v2") &&
        cuda.bind(toDevice, "cuMemcpyHtoD_v2") && cuda.bind(toHost, "cuMemcpyDtoH_v2") &&
        cuda.bind(within, "cuMemcpyDtoDAsync_v2") && cuda.bind(moduleLoad, "cuModuleLoadData") &&
        cuda.bind(moduleUnload, "cuModuleUnload") &&
        cuda.bind(moduleFunction, "cuModuleGetFunction") &&
        cuda.bind(functionAttribute, "cuFuncSetAttribute") &&
        cuda.bind(launchKernel, "cuLaunchKernel") && cuda.bind(streamCreate, "cuStreamCreate") &&
        cuda.bind(streamDestroy, "cuStreamDestroy_v2") &&
        cuda.bind(streamSynchronize, "cuStreamSynchronize") &&
        cuda.bind(eventCreate, "cuEventCreate") && cuda.bind(eventRecord, "cuEventRecord") &&
        cuda.bind(eventSynchronize, "cuEventSynchronize") &&
        cuda.bind(eventElapsed, "cuEventElapsedTime") &&
        cuda.bind(eventDestroy, "cuEventDestroy_v2") &&
        nvrtc.bind(programCreate, "nvrtcCreateProgram") &&
        nvrtc.bind(programCompile, "nvrtcCompileProgram") &&
        nvrtc.bind(programLogSize, "nvrtcGetProgramLogSize") &&
        nvrtc.bind(programLog, "nvrtcGetProgramLog") &&
        nvrtc.bind(cubinSize, "nvrtcGetCUBINSize") && nvrtc.bind(cubin, "nvrtcGetCUBIN") &&
        nvrtc.bind(programDestroy, "nvrtcDestroyProgram");
  }
};

const Driver& driver() {
  static const Driver loaded;
  return loaded;
}

void check(int error, const char* what) {
  if (error) userError("cuda: {} fails with code {}", what, error);
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int device) : device_(device) {
    check(d_.retainContext(&context_, device), "a context");
    check(d_.setContext(context_), "a context");
    check(d_.streamCreate(&stream_, 1), "a stream");
    check(d_.eventCreate(&from_, 0), "an event");
    check(d_.eventCreate(&to_, 0), "an event");
    int major = 0, minor = 0;
    d_.deviceAttribute(&major, 75, device);
    d_.deviceAttribute(&minor, 76, device);
    arch_ = fmt::format("--gpu-architecture=sm_{}{}", major, minor);
    check(d_.eventRecord(from_, stream_), "an event");
  }
  ~CudaDevice() override {
    d_.setContext(context_);
    d_.streamSynchronize(stream_);
    for (void* module : modules_) d_.moduleUnload(module);
    d_.eventDestroy(from_);
    d_.eventDestroy(to_);
    d_.streamDestroy(stream_);
    d_.releaseContext(device_);
  }
  std::string name() const override {
    char text[256] = {};
    d_.deviceName(text, sizeof text - 1, device_);
    return text;
  }
  void* alloc(int64_t bytes) override {
    use();
    Pointer p = 0;
    check(d_.memAlloc(&p, static_cast<size_t>(bytes)), "an allocation");
    check(d_.memSet(p, 0, static_cast<size_t>(bytes)), "a fill");
    return reinterpret_cast<void*>(p);
  }
  void release(void* memory) override {
    use();
    synchronize();
    d_.memFree(reinterpret_cast<Pointer>(memory));
  }
  void copyIn(const DeviceBuffer& to, const void* from) override {
    use();
    synchronize();
    check(d_.toDevice(at(to), from, static_cast<size_t>(to.bytes)), "a copy to the device");
  }
  void copyOut(void* to, const DeviceBuffer& from) override {
    use();
    synchronize();
    check(d_.toHost(to, at(from), static_cast<size_t>(from.bytes)), "a copy from the device");
  }
  void copy(const DeviceBuffer& to, const DeviceBuffer& from) override {
    use();
    check(d_.within(at(to), at(from), static_cast<size_t>(to.bytes), stream_), "a copy");
  }
  void load(const std::vector<const Artifact*>& artifacts) override {
    use();
    std::vector<const Artifact*> missing;
    for (const Artifact* a : artifacts)
      if (loaded_.emplace(a->symbol, true).second) missing.push_back(a);
    if (missing.empty()) return;
    const std::string cubin = compile(sourceOf(missing), missing[0]->options);
    void* module = nullptr;
    check(d_.moduleLoad(&module, cubin.data()), "loading a module");
    modules_.push_back(module);
    for (const Artifact* a : missing) findEntries(module, a->launches);
  }
  void launch(const Artifact& artifact, const std::vector<DeviceBuffer>& buffers,
              const std::vector<int64_t>& dims) override {
    use();
    runLaunches(artifact, dims, [&](const Launch& l, const LaunchValues& values) {
      enqueue(l, values, buffers, dims);
    });
  }
  void synchronize() override { check(d_.streamSynchronize(stream_), "a wait"); }
  double elapsed() override {  // between two calls: what ran on the stream
    use();
    float milliseconds = 0;
    check(d_.eventRecord(to_, stream_), "an event");
    check(d_.eventSynchronize(to_), "a wait");
    check(d_.eventElapsed(&milliseconds, from_, to_), "a time");
    check(d_.eventRecord(from_, stream_), "an event");
    return milliseconds * 1e-3;
  }

 private:
  static Pointer at(const DeviceBuffer& b) {
    return reinterpret_cast<Pointer>(b.memory) + static_cast<Pointer>(b.offset);
  }
  void use() const { check(d_.setContext(context_), "a context"); }

  std::string compile(const std::string& source, const std::string& options) const {
    void* program = nullptr;
    check(d_.programCreate(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr),
          "a program");
    std::vector<const char*> flags{arch_.c_str(), "--std=c++17"};
    if (!options.empty()) flags.push_back(options.c_str());
    const int error = d_.programCompile(program, static_cast<int>(flags.size()), flags.data());
    size_t size = 0;
    if (error) {
      d_.programLogSize(program, &size);
      std::string log(size, '\0');
      d_.programLog(program, log.data());
      TEKTITE_CHECK(false, "NVRTC refuses\n{}\n{}", source, log);
    }
    check(d_.cubinSize(program, &size), "code");
    std::string cubin(size, '\0');
    check(d_.cubin(program, cubin.data()), "code");
    d_.programDestroy(&program);
    return cubin;
  }
  void findEntries(void* module, const std::vector<Launch>& launches) {
    constexpr int kMostDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    for (const Launch& launch : launches) {
      findEntries(module, launch.body);
      if (launch.kind != Launch::Entry) continue;
      void*& function = entries_[launch.entry];
      check(d_.moduleFunction(&function, module, launch.entry.c_str()), "an entry");
      if (launch.sharedBytes)
        check(d_.functionAttribute(function, kMostDynamicShared,
                                   static_cast<int>(launch.sharedBytes)),
              "shared memory");
    }
  }
  void enqueue(const Launch& launch, const LaunchValues& values,
               const std::vector<DeviceBuffer>& buffers, const std::vector<int64_t>& dims) {
    const LaunchShape shape = shapeOf(launch, values);
    if (shape.blocks == 0) return;
    std::vector<unsigned long long> arguments;  // pointers and numbers alike have 64 bits
    for (const DeviceBuffer& b : buffers) arguments.push_back(at(b));
    for (int64_t dim : dims) arguments.push_back(static_cast<unsigned long long>(dim));
    for (const std::string& name : launch.outer)
      arguments.push_back(static_cast<unsigned long long>(valueOf(var(name), values)));
    std::vector<void*> pointers;
    for (auto& a : arguments) pointers.push_back(&a);
    check(d_.launchKernel(entries_.at(launch.entry), shape.blocks, 1, 1, shape.threads, 1, 1,
                          static_cast<unsigned>(launch.sharedBytes), stream_, pointers.data(),
                          nullptr),
          "a launch");
  }

  const Driver& d_ = driver();
  int device_;
  void *context_ = nullptr, *stream_ = nullptr, *from_ = nullptr, *to_ = nullptr;
  std::string arch_;
  std::vector<void*> modules_;
  std::unordered_map<std::string, void*> entries_;
  std::unordered_map<std::string, bool> loaded_;
};

}  // namespace

std::shared_ptr<Device> openCuda(const Target&) {
  const Driver& d = driver();
  int device = 0;
  if (!d.complete || d.init(0) || d.deviceGet(&device, 0)) return nullptr;
  return std::make_shared<CudaDevice>(device);
}

}  // namespace tektite
