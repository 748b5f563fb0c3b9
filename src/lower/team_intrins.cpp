#include "lower/team_intrins.h"

#include "ir/kernel_walk.h"
#include "support/check.h"

namespace tektite {
namespace {

/// What instructions of a warp mean. Butterflies leave the same bits in all lanes. tf32 has 10 binary digits behind the point; halves round
/// away from zero.
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
intrin mma.load_a(out d: f16[16x16]@frag, s: f16[16x16]@shared) {
  for i in 16 parallel {
    for k in 16 parallel {
      d[i, k] = s[i, k]
    }
  }
}
intrin mma.load_b(out d: f16[16x8]@frag, s: f16[16x8]@shared) {
  for k in 16 parallel {
    for j in 8 parallel {
      d[k, j] = s[k, j]
    }
  }
}
intrin mma.m16n8k16(inout d: f32[16x8]@frag, a: f16[16x16]@frag, b: f16[16x8]@frag) {
  for i in 16 parallel {
    for j in 8 parallel {
      for k in 16 serial {
        d[i, j] += f32(a[i, k]) * f32(b[k, j])
      }
    }
  }
}
intrin mma.bf16.load_a(out d: bf16[16x16]@frag, s: bf16[16x16]@shared) {
  for i in 16 parallel {
    for k in 16 parallel {
      d[i, k] = s[i, k]
    }
  }
}
intrin mma.bf16.load_b(out d: bf16[16x8]@frag, s: bf16[16x8]@shared) {
  for k in 16 parallel {
    for j in 8 parallel {
      d[k, j] = s[k, j]
    }
  }
}
intrin mma.bf16.m16n8k16(inout d: f32[16x8]@frag, a: bf16[16x16]@frag, b: bf16[16x8]@frag) {
  for i in 16 parallel {
    for j in 8 parallel {
      for k in 16 serial {
        d[i, j] += f32(a[i, k]) * f32(b[k, j])
      }
    }
  }
}
intrin mma.tf32.load_a(out d: f32[16x8]@frag, s: f32[16x8]@shared) {
  for i in 16 parallel {
    for k in 8 parallel {
      d[i, k] = frombits(shl(shr(bits(s[i, k]) + 4096, 13), 13))
    }
  }
}
intrin mma.tf32.load_b(out d: f32[8x8]@frag, s: f32[8x8]@shared) {
  for k in 8 parallel {
    for j in 8 parallel {
      d[k, j] = frombits(shl(shr(bits(s[k, j]) + 4096, 13), 13))
    }
  }
}
intrin mma.tf32.m16n8k8(inout d: f32[16x8]@frag, a: f32[16x8]@frag, b: f32[8x8]@frag) {
  for i in 16 parallel {
    for j in 8 parallel {
      for k in 8 serial {
        d[i, j] += a[i, k] * b[k, j]
      }
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

}  // namespace

void declareIntrins(KernelModule& module, const Block& statements) {
  static const KernelModule meanings = parseKernels(kMeanings, "instructions of a warp");
  Path path;
  walk(statements, path,
       {[&](const Stmt& s, Path&) {
          const Intrin* i = s.as<Intrin>();
          if (!i || module.intrin(i->name)) return;
          const IntrinDef* def = meanings.intrin(i->name);
          TEKTITE_CHECK(def, "no meaning of {}", i->name);
          module.intrins.push_back(*def);
        },
        nullptr});
}

}  // namespace tektite
