#include "backends/opencl/device.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "backends/launches.h"
#include "support/check.h"
#include "support/hash.h"

namespace tektite {
namespace {

void check(cl_int error, const char* what) {
  if (error != CL_SUCCESS) userError("opencl: {} fails with code {}", what, error);
}

std::string textOf(cl_device_id device, cl_device_info what) {
  size_t bytes = 0;
  clGetDeviceInfo(device, what, 0, nullptr, &bytes);
  std::string text(bytes, '\0');
  clGetDeviceInfo(device, what, bytes, text.data(), nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

template <class T>
T numberOf(cl_device_id device, cl_device_info what) {
  T value{};
  clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}

class OpenClDevice : public Device {
 public:
  explicit OpenClDevice(cl_device_id device) : device_(device) {
    cl_int error = 0;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    check(error, "a context");
    queue_ = clCreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &error);
    check(error, "a queue");
  }
  ~OpenClDevice() override {
    clFinish(queue_);
    forgetEvents();
    for (const auto& [name, kernel] : entries_) clReleaseKernel(kernel);
    for (cl_program program : programs_) clReleaseProgram(program);
    clReleaseCommandQueue(queue_);
    clReleaseContext(context_);
  }

  std::string name() const override { return textOf(device_, CL_DEVICE_NAME); }

  void* alloc(int64_t bytes) override {
    cl_int error = 0;
    cl_mem memory =
        clCreateBuffer(context_, CL_MEM_READ_WRITE, static_cast<size_t>(bytes), nullptr, &error);
    check(error, "an allocation");
    const cl_uchar zero = 0;
    check(clEnqueueFillBuffer(queue_, memory, &zero, 1, 0, static_cast<size_t>(bytes), 0, nullptr,
                              nullptr),
          "a fill");
    return memory;
  }
  void release(void* memory) override {
    clFinish(queue_);
    for (auto it = parts_.begin(); it != parts_.end();) {
      if (std::get<0>(it->first) != memory) {
        ++it;
        continue;
      }
      if (it->second != memory) clReleaseMemObject(it->second);
      it = parts_.erase(it);
    }
    sizes_.erase(memory);
    clReleaseMemObject(static_cast<cl_mem>(memory));
  }
  void copyIn(const DeviceBuffer& to, const void* from) override {
    check(clEnqueueWriteBuffer(queue_, memoryOf(to), CL_TRUE, offset(to), size(to), from, 0,
                               nullptr, nullptr),
          "a write");
  }
  void copyOut(void* to, const DeviceBuffer& from) override {
    check(clEnqueueReadBuffer(queue_, memoryOf(from), CL_TRUE, offset(from), size(from), to, 0,
                              nullptr, nullptr),
          "a read");
  }
  void copy(const DeviceBuffer& to, const DeviceBuffer& from) override {
    check(clEnqueueCopyBuffer(queue_, memoryOf(from), memoryOf(to), offset(from), offset(to),
                              size(to), 0, nullptr, nullptr),
          "a copy");
  }
  void load(const std::vector<const Artifact*>&) override;
  void launch(const Artifact&, const std::vector<DeviceBuffer>&,
              const std::vector<int64_t>&) override;
  void synchronize() override { check(clFinish(queue_), "a wait"); }
  double elapsed() override;

 private:
  static cl_mem memoryOf(const DeviceBuffer& b) { return static_cast<cl_mem>(b.memory); }
  static size_t offset(const DeviceBuffer& b) { return static_cast<size_t>(b.offset); }
  static size_t size(const DeviceBuffer& b) { return static_cast<size_t>(b.bytes); }
  cl_mem part(const DeviceBuffer&);
  void build(const std::vector<const Artifact*>&);
  void enqueue(const Launch&, const LaunchValues& values, const std::vector<DeviceBuffer>& buffers,
               const std::vector<int64_t>& dims);
  void forgetEvents() {
    for (cl_event e : events_) clReleaseEvent(e);
    events_.clear();
  }

  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  std::vector<cl_program> programs_;
  std::unordered_map<std::string, cl_kernel> entries_;
  std::map<std::tuple<void*, int64_t, int64_t>, cl_mem> parts_;
  std::map<void*, int64_t> sizes_;
  std::vector<cl_event> events_;
};

/// A buffer of its own for a part of one; the same for the same part, so that kernels in place see one object.
cl_mem OpenClDevice::part(const DeviceBuffer& b) {
  int64_t& whole = sizes_[b.memory];
  if (whole == 0) {
    size_t bytes = 0;
    clGetMemObjectInfo(memoryOf(b), CL_MEM_SIZE, sizeof bytes, &bytes, nullptr);
    whole = static_cast<int64_t>(bytes);
  }
  if (b.offset == 0 && b.bytes >= whole) return memoryOf(b);
  cl_mem& made = parts_[{b.memory, b.offset, b.bytes}];
  if (!made) {
    const cl_buffer_region region{offset(b), std::max<size_t>(size(b), 1)};
    cl_int error = 0;
    made = clCreateSubBuffer(memoryOf(b), CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region,
                             &error);
    check(error, "a part of a buffer");
  }
  return made;
}

void OpenClDevice::load(const std::vector<const Artifact*>& artifacts) {
  constexpr size_t kTogether = 64;  // kernels of one program
  std::vector<const Artifact*> missing;
  for (const Artifact* a : artifacts) {
    const bool known = a->launches.empty() || entries_.count(a->symbol) > 0 ||
                       entries_.count(a->symbol + "_1") > 0;
    if (!known) missing.push_back(a);
  }
  for (size_t at = 0; at < missing.size(); at += kTogether) {
    build(
        {missing.begin() + static_cast<std::ptrdiff_t>(at),
         missing.begin() + static_cast<std::ptrdiff_t>(std::min(at + kTogether, missing.size()))});
  }
}

void OpenClDevice::build(const std::vector<const Artifact*>& artifacts) {
  const std::string source = sourceOf(artifacts);
  const char* text = source.c_str();
  cl_int error = 0;
  cl_program program = clCreateProgramWithSource(context_, 1, &text, nullptr, &error);
  check(error, "a program");
  programs_.push_back(program);
  if (clBuildProgram(program, 1, &device_, artifacts[0]->options.c_str(), nullptr, nullptr) !=
      CL_SUCCESS) {
    size_t bytes = 0;
    clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
    std::string log(bytes, '\0');
    clGetProgramBuildInfo(program, device_, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
    TEKTITE_CHECK(false, "the OpenCL compiler refuses\n{}\n{}", source, log);
  }
  cl_uint count = 0;
  check(clCreateKernelsInProgram(program, 0, nullptr, &count), "the kernels");
  std::vector<cl_kernel> kernels(count);
  check(clCreateKernelsInProgram(program, count, kernels.data(), nullptr), "the kernels");
  for (cl_kernel kernel : kernels) {
    char name[256] = {};
    clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, nullptr);
    entries_.emplace(name, kernel);
  }
}

void OpenClDevice::enqueue(const Launch& launch, const LaunchValues& values,
                           const std::vector<DeviceBuffer>& buffers,
                           const std::vector<int64_t>& dims) {
  const int64_t tiles = valueOf(launch.count, values);
  if (tiles == 0) return;
  const auto at = entries_.find(launch.entry);
  TEKTITE_CHECK(at != entries_.end(), "entry {} isn't loaded", launch.entry);
  cl_kernel kernel = at->second;
  cl_uint number = 0;
  for (const DeviceBuffer& b : buffers) {
    cl_mem memory = part(b);
    check(clSetKernelArg(kernel, number++, sizeof memory, &memory), "an argument");
  }
  const auto pass = [&](int64_t value) {
    const cl_long wide = value;
    check(clSetKernelArg(kernel, number++, sizeof wide, &wide), "an argument");
  };
  for (int64_t dim : dims) pass(dim);
  for (const std::string& name : launch.outer) pass(valueOf(var(name), values));
  const size_t team = static_cast<size_t>(launch.threads);
  const size_t local = team > 1 ? team : kTileGroup;
  const size_t all = team > 1 ? static_cast<size_t>(tiles) * team
                              : (static_cast<size_t>(tiles) + local - 1) / local * local;
  cl_event event = nullptr;
  check(clEnqueueNDRangeKernel(queue_, kernel, 1, nullptr, &all, &local, 0, nullptr, &event),
        "a launch");
  constexpr size_t kMostEvents = 4096;  // nobody asks for the time of so many
  if (events_.size() >= kMostEvents) forgetEvents();
  events_.push_back(event);
}

void OpenClDevice::launch(const Artifact& artifact, const std::vector<DeviceBuffer>& buffers,
                          const std::vector<int64_t>& dims) {
  runLaunches(artifact, dims, [&](const Launch& l, const LaunchValues& values) {
    enqueue(l, values, buffers, dims);
  });
  clFlush(queue_);
}

double OpenClDevice::elapsed() {
  synchronize();
  double seconds = 0;
  for (cl_event e : events_) {
    cl_ulong from = 0, to = 0;
    clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_START, sizeof from, &from, nullptr);
    clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof to, &to, nullptr);
    seconds += static_cast<double>(to - from) * 1e-9;
  }
  forgetEvents();
  return seconds;
}

/// GPUs first; of all platforms.
std::vector<cl_device_id> devices() {
  cl_uint count = 0;
  if (clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS) return {};
  std::vector<cl_platform_id> platforms(count);
  clGetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<cl_device_id> out;
  for (cl_device_type type : {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU})
    for (cl_platform_id platform : platforms) {
      cl_uint n = 0;
      if (clGetDeviceIDs(platform, type, 0, nullptr, &n) != CL_SUCCESS) continue;
      std::vector<cl_device_id> found(n);
      clGetDeviceIDs(platform, type, n, found.data(), nullptr);
      out.insert(out.end(), found.begin(), found.end());
    }
  return out;
}

}  // namespace

std::shared_ptr<Device> openOpenCl(const Target& target) {
  // One context a device: programs of all models share what was compiled.
  static std::mutex guard;
  static std::map<cl_device_id, std::weak_ptr<Device>> opened;
  const std::lock_guard lock(guard);
  const Level* shared = target.level("shared");
  for (cl_device_id id : devices()) {
    if (!numberOf<cl_bool>(id, CL_DEVICE_AVAILABLE) ||
        !numberOf<cl_bool>(id, CL_DEVICE_COMPILER_AVAILABLE))
      continue;
    if (shared &&
        static_cast<int64_t>(numberOf<cl_ulong>(id, CL_DEVICE_LOCAL_MEM_SIZE)) < shared->bytes)
      continue;
    std::shared_ptr<Device> device = opened[id].lock();
    if (!device) opened[id] = device = std::make_shared<OpenClDevice>(id);
    return device;
  }
  return nullptr;
}

}  // namespace tektite
