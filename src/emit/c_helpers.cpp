#include <algorithm>
#include <cmath>

#include "emit/c_language.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr Language kOpenCl{Language::OpenCl,
                           false,
                           "cl",
                           "__kernel void",
                           "__global ",
                           "__local ",
                           "restrict",
                           "get_group_id(0)",
                           "get_global_id(0)",
                           "get_local_id(0)",
                           "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"};
constexpr Language kCuda{Language::Cuda,
                         false,
                         "cu",
                         "extern \"C\" __global__ void",
                         "",
                         "__shared__ ",
                         "__restrict__",
                         "blockIdx.x",
                         "blockIdx.x * blockDim.x + threadIdx.x",
                         "threadIdx.x",
                         "__syncthreads();"};
constexpr Language plainOf(Language l) {
  l.plain = true;
  return l;
}
constexpr Language kPlain = plainOf(kCuda);

struct Helper {
  std::string_view name, needs;
  std::string_view openCl, cuda, plain;  ///< cuda: for plain C++ too where `plain` is empty
};
// Two factors, of half the exponent each: the sum leaves n + 254 in the low bits.
constexpr std::string_view kLdexp = R"(FN float ldexp_f32(float x, float n) {
  const u32 low = (u32)bits_f32(n + 12583166.0f), first = low << 22 & 0x7f800000u;
  return x * f32_of_bits((int)first) * f32_of_bits((int)((low << 23) - first));
}
)";
// FN: what stands before a function. The texts are lines of their own.
constexpr Helper kHelpers[] = {
    {"f64", "", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", "", ""},
    {"bits_f32", "", "FN int bits_f32(float x) { return as_int(x); }\n",
     "FN int bits_f32(float x) { return __float_as_int(x); }\n",
     "FN int bits_f32(float x) { int b; memcpy(&b, &x, 4); return b; }\n"},
    {"f32_of_bits", "", "FN float f32_of_bits(int b) { return as_float(b); }\n",
     "FN float f32_of_bits(int b) { return __int_as_float(b); }\n",
     "FN float f32_of_bits(int b) { float x; memcpy(&x, &b, 4); return x; }\n"},
    {"bits_f64", "f64", "FN i64 bits_f64(double x) { return as_long(x); }\n",
     "FN i64 bits_f64(double x) { return __double_as_longlong(x); }\n",
     "FN i64 bits_f64(double x) { i64 b; memcpy(&b, &x, 8); return b; }\n"},
    {"f64_of_bits", "f64", "FN double f64_of_bits(i64 b) { return as_double(b); }\n",
     "FN double f64_of_bits(i64 b) { return __longlong_as_double(b); }\n",
     "FN double f64_of_bits(i64 b) { double x; memcpy(&x, &b, 8); return x; }\n"},
    {"ldexp_f32", "bits_f32 f32_of_bits", kLdexp, kLdexp, ""},
    {"ldexp_f64", "f64", "FN double ldexp_f64(double x, double n) { return ldexp(x, (int)n); }\n",
     "FN double ldexp_f64(double x, double n) { return ldexp(x, (int)n); }\n", ""},
    {"f16_to_f32", "f32_of_bits",
     "FN float f16_to_f32(f16 h) { return vload_half(0, (const half*)&h); }\n",
     "FN float f16_to_f32(f16 h) { float x; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h)); "
     "return x; }\n",
     R"(FN float f16_to_f32(f16 h) {
  const int sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, digits = h & 1023;
  if (exponent == 31) return f32_of_bits(sign | 0x7f800000 | digits << 13);
  if (exponent) return f32_of_bits(sign | (exponent + 112) << 23 | digits << 13);
  const float small = digits * 5.9604644775390625e-08f;
  return sign ? -small : small;
}
)"},
    {"f32_to_f16", "bits_f32 f32_of_bits",
     "FN f16 f32_to_f16(float x) { f16 h; vstore_half_rte(x, 0, (half*)&h); return h; }\n",
     "FN f16 f32_to_f16(float x) { f16 h; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x)); "
     "return h; }\n",
     R"(FN f16 f32_to_f16(float x) {
  const int bits = bits_f32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size > 0x7f800000) return sign | 0x7e00;
  if (size >= 0x477ff000) return sign | 0x7c00;
  if (size < 0x38800000)  // subnormal: adding 0.5 rounds to its last digit
    return sign | (bits_f32(f32_of_bits(size) + 0.5f) - 0x3f000000);
  return sign | ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}
)"},
    {"round_f16", "f16_to_f32 f32_to_f16",
     "FN float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }\n",
     "FN float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }\n", ""},
    {"bf16_to_f32", "f32_of_bits",
     "FN float bf16_to_f32(bf16 h) { return f32_of_bits((int)((u32)h << 16)); }\n",
     "FN float bf16_to_f32(bf16 h) { return f32_of_bits((int)((u32)h << 16)); }\n", ""},
    {"f32_to_bf16", "bits_f32", R"(FN bf16 f32_to_bf16(float x) {
  const u32 bits = (u32)bits_f32(x);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
)",
     R"(FN bf16 f32_to_bf16(float x) {
  const u32 bits = (u32)bits_f32(x);
  return x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
)",
     ""},
    {"round_bf16", "bf16_to_f32 f32_to_bf16",
     "FN float round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }\n",
     "FN float round_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }\n", ""},
    // max and min: the first of equals, NaN where one is NaN
    {"max_f32", "", "FN float max_f32(float a, float b) { return b != b || a < b ? b : a; }\n",
     "FN float max_f32(float a, float b) { return b != b || a < b ? b : a; }\n", ""},
    {"min_f32", "", "FN float min_f32(float a, float b) { return b != b || b < a ? b : a; }\n",
     "FN float min_f32(float a, float b) { return b != b || b < a ? b : a; }\n", ""},
    {"max_f64", "f64",
     "FN double max_f64(double a, double b) { return b != b || a < b ? b : a; }\n",
     "FN double max_f64(double a, double b) { return b != b || a < b ? b : a; }\n", ""},
    {"min_f64", "f64",
     "FN double min_f64(double a, double b) { return b != b || b < a ? b : a; }\n",
     "FN double min_f64(double a, double b) { return b != b || b < a ? b : a; }\n", ""},
    {"wrap_i4", "", "FN i8 wrap_i4(int x) { return (i8)((x & 15 ^ 8) - 8); }\n",
     "FN i8 wrap_i4(int x) { return (i8)(((x & 15) ^ 8) - 8); }\n", ""},
    {"wrap_u4", "", "FN u8 wrap_u4(int x) { return (u8)(x & 15); }\n",
     "FN u8 wrap_u4(int x) { return (u8)(x & 15); }\n", ""},
    // of `count` teams that come here, is this the last? The others' writes are visible to it.
    {"last_arrival", "",
     R"(FN bool last_arrival(volatile __global int* counter, int count, int thread, __local int* last) {
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  if (thread == 0) {
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    *last = atomic_inc(counter) == count - 1;
    if (*last) *counter = 0;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
  }
  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
  return *last;
}
)",
     R"(FN bool last_arrival(int* counter, int count, int thread, int* last) {
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    *last = atomicAdd(counter, 1) == count - 1;
    if (*last) *counter = 0;
    __threadfence();
  }
  __syncthreads();
  return *last;
}
)",
     ""},
    // the same where each work-item is a tile of its own
    {"last_arrival_alone", "",
     R"(FN bool last_arrival_alone(volatile __global int* counter, int count) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  const bool last = atomic_inc(counter) == count - 1;
  if (last) *counter = 0;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return last;
}
)",
     R"(FN bool last_arrival_alone(int* counter, int count) {
  __threadfence();
  const bool last = atomicAdd(counter, 1) == count - 1;
  if (last) *counter = 0;
  __threadfence();
  return last;
}
)",
     ""},
    {"vec", "", "",
     "template <class T, int N>\nstruct alignas(sizeof(T) * N) vec {\n  T at[N];\n};\n", ""},
    // asynchronous copies: `size` bytes, the rest of 16 is 0
    {"cp_async16", "", "",
     R"(FN void cp_async16(void* to, const void* from, int size) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n\tcp.async.commit_group;" ::"r"(
                   (u32)__cvta_generic_to_shared(to)),
               "l"(from), "r"(size)
               : "memory");
}
)",
     R"(FN void cp_async16(void* to, const void* from, int size) {
  memset(to, 0, 16);
  memcpy(to, from, size);
}
)"},
    {"cp_async_wait", "", "",
     R"(template <int Pending>
FN void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
)",
     "template <int Pending>\nFN void cp_async_wait() {}\n"},
#include "emit/c_warp_helpers.inc"
};

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

DType typeNamed(std::string_view name) {
  const auto type = dtypeFromName(name);
  TEKTITE_CHECK(type, "no type '{}' in a helper's name", name);
  return *type;
}

/// Division by 0 is 0, the remainder is then the dividend; the least number by -1 wraps.
std::string division(std::string_view op, DType type) {
  const std::string t(registerType(type)), wide = bits(type) <= 32 ? "i64" : "i64";
  const bool quotient = op.ends_with("div"), floors = op.starts_with("floor");
  const std::string name = fmt::format("{}_{}", op, tektite::name(type));
  const std::string zero = quotient ? "0" : "a";
  if (!isSigned(type))
    return fmt::format("FN {0} {1}({0} a, {0} b) {{ return b == 0 ? {2} : a {3} b; }}\n", t, name,
                       zero, quotient ? "/" : "%");
  const std::string minus = quotient ? fmt::format("({0})({1}a)", t,
                                                   bits(type) == 64   ? "0 - (u64)"
                                                   : bits(type) == 32 ? "0 - (u32)"
                                                                      : "-")
                                     : "0";
  std::string body =
      fmt::format("  if (b == 0) return {};\n  if (b == -1) return {};\n", zero, minus);
  if (quotient)
    body += floors ? fmt::format(
                         "  const {0} q = a / b;\n  return a % b != 0 && (a < 0) != (b < 0) ? q - "
                         "1 : q;\n",
                         t)
                   : "  return a / b;\n";
  else
    body +=
        floors
            ? fmt::format(
                  "  const {0} r = a % b;\n  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n", t)
            : "  return a % b;\n";
  return fmt::format("FN {0} {1}({0} a, {0} b) {{\n{2}}}\n", t, name, body);
}

/// By the width or more: 0, or the sign.
std::string shift(std::string_view op, DType type) {
  const std::string t(registerType(type)), name = fmt::format("{}_{}", op, tektite::name(type));
  const int width = bits(type);
  const std::string_view wide = width == 64 ? "u64" : "u32";
  if (op == "shl")
    return fmt::format(
        "FN {0} {1}({0} a, {0} b) {{ return b >= 0 && b < {2} ? ({0})(({3})a << b) : ({0})0; }}\n",
        t, name, width, wide);
  return fmt::format(
      "FN {0} {1}({0} a, {0} b) {{ return b >= 0 && b < {2} ? ({0})(a >> b) : ({0})({3}); }}\n", t,
      name, width, isSigned(type) ? "a < 0 ? -1 : 0" : "0");
}

std::string sign(DType type) {
  const std::string t(registerType(type));
  return fmt::format(
      "FN {0} sign_{1}({0} x) {{ return x != x ? x : x < 0 ? ({0})-1 : ({0})(x > 0); }}\n", t,
      tektite::name(type));
}

/// A float to an integer: truncated, saturated, NaN 0.
std::string saturation(DType to, DType from) {
  const std::string t(registerType(to)), f = from == DType::F64 ? "" : "f";
  const int width = bits(to);
  const double high = std::ldexp(1.0, isSigned(to) ? width - 1 : width),
               low = isSigned(to) ? -high : 0;
  const std::string most = width == 64
                               ? (isSigned(to) ? "0x7fffffffffffffff" : "0xffffffffffffffff")
                           : width == 32 ? (isSigned(to) ? "0x7fffffff" : "0xffffffff")
                                         : fmt::format("{:.0f}", high - 1);
  const std::string least =
      !isSigned(to) ? "0"
                    : fmt::format("-{} - 1", width < 32 ? fmt::format("{:.0f}", high - 1) : most);
  return fmt::format(
      "FN {0} {1}_of_{2}({3} x) {{\n  return x != x ? ({0})0 : x < {4:.1f}{5} ? ({0})({6}) : x >= "
      "{7:.1f}{5} ? ({0}){8} : ({0})x;\n}}\n",
      t, tektite::name(to), tektite::name(from), registerType(from), low, f, least, high, most);
}

struct Made {
  std::string needs, text;
};

Made make(const Language& language, const std::string& name) {
  for (const Helper& h : kHelpers) {
    if (h.name != name) continue;
    const std::string_view text = language.kind == Language::OpenCl    ? h.openCl
                                  : language.plain && !h.plain.empty() ? h.plain
                                                                       : h.cuda;
    return {std::string(h.needs), std::string(text)};
  }
  const size_t line = name.find('_');
  const std::string first = name.substr(0, line), last = name.substr(name.rfind('_') + 1);
  if (name.find("_of_") != std::string::npos)
    return {last == "f64" ? "f64" : "", saturation(typeNamed(first), typeNamed(last))};
  const DType type = typeNamed(last);
  if (first == "sign") return {type == DType::F64 ? "f64" : "", sign(type)};
  if (first == "shl" || first == "shr") return {"", shift(first, type)};
  return {"", division(first, type)};
}

}  // namespace

const Language& openClC() { return kOpenCl; }
const Language& cudaCpp() { return kCuda; }
const Language& plainCpp() { return kPlain; }

std::string typesOf(const Language& language) {
  if (language.kind == Language::OpenCl)
    return R"(typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef ushort f16;   // bits
typedef ushort bf16;  // bits
)";
  return std::string(language.plain
                         ? ""
                         : "#ifndef INFINITY\n#define INFINITY __int_as_float(0x7f800000)\n#define "
                           "NAN __int_as_float(0x7fc00000)\n#endif\n") +
         R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned short f16;   // bits
typedef unsigned short bf16;  // bits
)";
}

void addHelper(const Language& language, const std::string& name, std::vector<std::string>& to) {
  const Made made = make(language, name);
  for (size_t at = 0; at < made.needs.size();) {
    const size_t end = std::min(made.needs.find(' ', at), made.needs.size());
    addHelper(language, made.needs.substr(at, end - at), to);
    at = end + 1;
  }
  const std::string_view before =
      language.kind == Language::OpenCl ? "static inline" : "static __device__ __forceinline__";
  const std::string text = replaced(made.text, "FN ", std::string(before) + " ");
  if (!text.empty() && std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
}

std::string_view memoryType(DType t) {
  switch (t) {
    case DType::Bool: return "u8";
    case DType::I4: return "i8";
    case DType::U4: return "u8";
    case DType::I32: return "int";
    case DType::F16: return "f16";
    case DType::BF16: return "bf16";
    case DType::F32: return "float";
    case DType::F64: return "double";
    default: return tektite::name(t);
  }
}

std::string_view registerType(DType t) {
  if (t == DType::Bool) return "bool";
  return t == DType::F16 || t == DType::BF16 ? "float" : memoryType(t);
}

}  // namespace tektite
