#pragma once
// CUDA's driver as far as a launcher uses it, on the CPU: memory is the host's, a kernel is a function NAME_on_cpu of this program that reads
// its arguments from an array (recordKernel), and what is launched while a stream records runs when the graph is launched. For tests: included before the
// launcher, behind cuda_on_cpu.h, in one file. Anything out of order ends the program.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace fake {

using Record = void (*)(void** arguments, int blocks, int threads);
inline bool recording = false;
inline std::vector<std::function<void()>> recorded;
inline std::set<void*> memory;

inline void need(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "driver: %s\n", what);
  std::exit(3);
}
inline void* at(CUdeviceptr p) { return reinterpret_cast<void*>(p); }

/// What NAME_on_cpu does: the arguments are copied now, the kernel runs with the graph.
template <class... P, size_t... I>
void recordKernel(void (*kernel)(P...), void** from, int blocks, int threads,
                  std::index_sequence<I...>) {
  const std::tuple<P...> values{*static_cast<std::remove_const_t<P>*>(from[I])...};
  recorded.push_back([=] { launchOnCpu(blocks, threads, [&] { std::apply(kernel, values); }); });
}
template <class... P>
void recordKernel(void (*kernel)(P...), void** from, int blocks, int threads) {
  recordKernel(kernel, from, blocks, threads, std::index_sequence_for<P...>{});
}

}  // namespace fake

extern "C" {
CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuGetErrorName(CUresult, const char**) { return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* d, int) { return *d = 0, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext*, CUdevice) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  fake::need(fake::memory.empty(), "memory is left");
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuStreamCreate(CUstream*, unsigned) { return CUDA_SUCCESS; }
CUresult cuStreamDestroy(CUstream) { return CUDA_SUCCESS; }
CUresult cuStreamSynchronize(CUstream) {
  fake::need(!fake::recording, "waits while it records");
  return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr* p, size_t bytes) {
  void* made = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  fake::memory.insert(made);
  return *p = reinterpret_cast<CUdeviceptr>(made), CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
  fake::need(fake::memory.erase(fake::at(p)) == 1, "frees what it has not");
  return std::free(fake::at(p)), CUDA_SUCCESS;
}
CUresult cuMemsetD8(CUdeviceptr p, unsigned char v, size_t n) {
  return std::memset(fake::at(p), v, n), CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr p, const void* from, size_t n) {
  return std::memcpy(fake::at(p), from, n), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* to, CUdeviceptr p, size_t n) {
  return std::memcpy(to, fake::at(p), n), CUDA_SUCCESS;
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream) {
  fake::need(fake::recording, "a copy outside of the graph");
  fake::recorded.push_back([=] { std::memcpy(fake::at(to), fake::at(from), n); });
  return CUDA_SUCCESS;
}
CUresult cuModuleLoad(CUmodule* m, const char*) {
  return *m = reinterpret_cast<CUmodule>(dlopen(nullptr, RTLD_NOW)), CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  void* found = dlsym(m, (std::string(name) + "_on_cpu").c_str());
  fake::need(found, "no such kernel");
  return *f = reinterpret_cast<CUfunction>(found), CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  return fake::recording = true, CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return fake::recording = false, CUDA_SUCCESS; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
  return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  for (const auto& one : fake::recorded) one();
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction f, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream, void** arguments, void** extra) {
  fake::need(fake::recording, "a launch outside of the graph");
  fake::need(!extra && blocks && threads, "a launch of nothing");
  const auto record = reinterpret_cast<fake::Record>(f);
  record(arguments, static_cast<int>(blocks), static_cast<int>(threads));
  return CUDA_SUCCESS;
}
}
