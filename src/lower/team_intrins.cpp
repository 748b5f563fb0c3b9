#include "lower/team_intrins.h"

#include "ir/kernel_walk.h"
#include "schedule/team.h"
#include "support/check.h"

namespace tektite {
namespace {

/// What instructions of a warp mean, whatever they multiply. Butterflies leave the same bits in all lanes.
const char* const kMeanings = R"(
intrin warp.max(inout v: f32[32]@reg) {
  for s in 5 serial {
    for l in 32 vector {
      v[l] max= v[xor(l, shl(1, s))]
    }
  }
}
intrin warp.sum(inout v: f32[32]@reg) {
  for s in 5 serial {
    for l in 32 vector {
      v[l] += v[xor(l, shl(1, s))]
    }
  }
}
intrin mma.zero(out d: f32[16x8]@frag) {
  for i in 16 parallel {
    for j in 8 parallel {
      d[i, j] = 0
    }
  }
}
intrin mma.store(out d: f32[16x8]@shared, s: f32[16x8]@frag) {
  for i in 16 parallel {
    for j in 8 parallel {
      d[i, j] = s[i, j]
    }
  }
}
)";

/// Of those that multiply one type. tf32, which f32 is rounded to, has 10 binary digits behind the point; halves round away from zero.
std::string meaningOf(const MatrixProduct& p) {
  const bool rounds = p.operand == DType::F32;
  const auto load = [&](const char* instruction, int64_t rows, int64_t columns, const char* r,
                        const char* c) {
    const std::string from = fmt::format("s[{}, {}]", r, c);
    const std::string value =
        rounds ? fmt::format(
                     "select({0} == {0}, frombits(shl(shr(bits({0}) + 4096, 13), 13)), {0})", from)
               : from;
    return fmt::format(R"(
intrin {0}(out d: {1}[{2}x{3}]@frag, s: {1}[{2}x{3}]@shared) {{
  for {4} in {2} parallel {{
    for {5} in {3} parallel {{
      d[{4}, {5}] = {6}
    }}
  }}
}})",
                       instruction, name(p.operand), rows, columns, r, c, value);
  };
  const char* const wide = rounds ? "" : "f32";
  return load(p.loadRows, kMatrixRows, p.depth, "i", "k") +
         load(p.loadColumns, p.depth, kMatrixColumns, "k", "j") +
         fmt::format(R"(
intrin {0}(inout d: f32[{1}x{2}]@frag, a: {3}[{1}x{4}]@frag, b: {3}[{4}x{2}]@frag) {{
  for i in {1} parallel {{
    for j in {2} parallel {{
      for k in {4} serial {{
        d[i, j] += {5}(a[i, k]) * {5}(b[k, j])
      }}
    }}
  }}
}}
)",
                     p.name, kMatrixRows, kMatrixColumns, name(p.operand), p.depth, wide);
}

KernelModule meanings() {
  std::string text = kMeanings;
  for (const MatrixProduct& p : kMatrixProducts) text += meaningOf(p);
  return parseKernels(text, "instructions of a warp");
}

}  // namespace

void declareIntrins(KernelModule& module, const Block& statements) {
  static const KernelModule known = meanings();
  Path path;
  walk(statements, path,
       {[&](const Stmt& s, Path&) {
          const Intrin* i = s.as<Intrin>();
          if (!i || module.intrin(i->name)) return;
          const IntrinDef* def = known.intrin(i->name);
          TEKTITE_CHECK(def, "no meaning of {}", i->name);
          module.intrins.push_back(*def);
        },
        nullptr});
}

}  // namespace tektite
