#include "emit/c_intrinsics.h"

namespace tektite {
namespace {

const CIntrinsic kIntrinsics[] = {
    {"mma.zero", {{"float", 4}}, "mma_zero"},
    {"mma.load_a", {{"u32", 4}, {"", 0}}, "mma_load_a"},
    {"mma.load_b", {{"u32", 2}, {"", 0}}, "mma_load_b"},
    {"mma.m16n8k16", {{"float", 4}, {"u32", 4}, {"u32", 2}}, "mma_m16n8k16"},
    {"mma.bf16.load_a", {{"u32", 4}, {"", 0}}, "mma_load_a"},
    {"mma.bf16.load_b", {{"u32", 2}, {"", 0}}, "mma_load_b"},
    {"mma.bf16.m16n8k16", {{"float", 4}, {"u32", 4}, {"u32", 2}}, "mma_bf16_m16n8k16"},
    {"mma.tf32.load_a", {{"u32", 4}, {"", 0}}, "mma_tf32_load_a"},
    {"mma.tf32.load_b", {{"u32", 2}, {"", 0}}, "mma_tf32_load_b"},
    {"mma.tf32.m16n8k8", {{"float", 4}, {"u32", 4}, {"u32", 2}}, "mma_tf32_m16n8k8"},
    {"mma.store", {{"", 0}, {"float", 4}}, "mma_store"},
    {"warp.max", {{"", 0}}, "warp_max"},
    {"warp.sum", {{"", 0}}, "warp_sum"},
};

}  // namespace

const CIntrinsic* findIntrinsic(const Language& language, std::string_view name) {
  if (language.kind != Language::Cuda) return nullptr;
  for (const CIntrinsic& i : kIntrinsics)
    if (i.name == name) return &i;
  return nullptr;
}

}  // namespace tektite
