#pragma once

namespace tektite {

// Small graphs that are lowered for machines with explicit memories.

inline const char* const kChain = R"(
graph (x: f32[64x300], b: f32[1x300]) {
  %2 = map (x, b) { $0 + $1 } : f32[64x300]
  %3 = map (%2) { max($0, 0) } : f32[64x300]
  %4 = map (%3, x) { $0 * $1 } : f32[64x300]
  return %4
})";
inline const char* const kSoftmax = R"(
graph (x: f32[37x129]) {
  %1 = reduce max x axes=[1] : f32[37x1]
  %2 = map (x, %1) { exp($0 - $1) } : f32[37x129]
  %3 = reduce sum %2 axes=[1] : f32[37x1]
  %4 = map (%2, %3) { $0 / $1 } : f32[37x129]
  return %4
})";
inline const char* const kProduct = R"(
graph (x: f32[37x50]) {
  %1 = const data "w" : f32[50x41]
  %2 = contract x, %1 mk,kn->mn : f32[37x41]
  %3 = const data "b" : f32[1x41]
  %4 = map (%2, %3) { max($0 + $1, 0) } : f32[37x41]
  return %4
})";
inline const char* const kAttention = R"(
graph (q: f32[2x24x8], k: f32[2x24x8], v: f32[2x24x8]) {
  %3 = contract q, k bxz,byz->bxy : f32[2x24x24]
  %4 = reduce max %3 axes=[2] : f32[2x24x1]
  %5 = map (%3, %4) { exp($0 - $1) } : f32[2x24x24]
  %6 = reduce sum %5 axes=[2] : f32[2x24x1]
  %7 = map (%5, %6) { $0 / $1 } : f32[2x24x24]
  %8 = contract %7, v bxz,bzy->bxy : f32[2x24x8]
  return %8
})";
inline const char* const kConvolutions = R"(
graph (x: f32[1x3x20x20]) {
  %1 = const data "w1" : f32[4x3x3x3]
  %2 = view x (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4 - 1, d3 + d5 - 1) fill=0 : f32[1x3x20x20x3x3]
  %3 = contract %2, %1 ncpqij,ocij->nopq : f32[1x4x20x20]
  %4 = map (%3) { max($0, 0) } : f32[1x4x20x20]
  %5 = view %4 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 * 2 + d4, d3 * 2 + d5) : f32[1x4x10x10x2x2]
  %6 = reduce max %5 axes=[4, 5] : f32[1x4x10x10x1x1]
  %7 = view %6 (d0, d1, d2, d3) -> (0, d1, d2, d3, 0, 0) : f32[1x4x10x10]
  %8 = const data "w2" : f32[6x4x3x3]
  %9 = view %7 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4 - 1, d3 + d5 - 1) fill=0 : f32[1x4x10x10x3x3]
  %10 = contract %9, %8 ncpqij,ocij->nopq : f32[1x6x10x10]
  %11 = map (%10) { max($0, 0) } : f32[1x6x10x10]
  return %11
})";

/// Parts side by side, along an axis of theirs and along the lanes.
inline const char* const kParts = R"(
graph (x: f32[12x3x128], y: f32[12x1x128], z: f32[12x4x72]) {
  %3 = concat x, y axis=1 : f32[12x4x128]
  %4 = concat %3, z axis=2 : f32[12x4x200]
  return %3, %4
})";
/// Rows of a table that data chooses, and what is made of them.
inline const char* const kRows = R"(
graph (rows: i64[1x12]) {
  %1 = const data "table" : f32[160x256]
  %2 = gather %1 [rows] (d0, d1) -> (select($1[0, d0] < 0, $1[0, d0] + 160, $1[0, d0]), d1) fill=0 : f32[12x256]
  %3 = const data "w" : f32[384x256]
  %4 = contract %2, %3 mk,nk->mn : f32[12x384]
  return %2, %4
})";

/// Two convolutions of bytes: what passes between them, through a pad and through a maximum, is requantised sums.
inline const char* const kQuantised = R"(
graph (x: u8[1x3x12x12]) {
  %1 = const data "w1" : i8[4x3x3x3]
  %2 = view x (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4 - 1, d3 + d5 - 1) fill=7 : u8[1x3x12x12x3x3]
  %3 = contract %2, %1 ncpqij,ocij->nopq : i32[1x4x12x12]
  %4 = const data "b1" : i32[1x4x1x1]
  %5 = map (%3, %4) { u8(min(max(round(f32($0 + $1) * 0.25), 0), 255)) } : u8[1x4x12x12]
  %6 = view %5 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4 - 1, d3 + d5 - 1) fill=7 : u8[1x4x12x12x3x3]
  %7 = const data "w2" : i8[5x4x3x3]
  %8 = contract %6, %7 ncpqij,ocij->nopq : i32[1x5x12x12]
  %9 = map (%8) { u8(min(max(round(f32($0) * 0.03), 0), 255)) } : u8[1x5x12x12]
  %10 = view %9 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 * 2 + d4, d3 * 2 + d5) : u8[1x5x6x6x2x2]
  %11 = reduce max %10 axes=[4, 5] : u8[1x5x6x6x1x1]
  return %11
})";

/// Depthwise, with bytes, behind a product of bytes: each channel has a window of its own.
inline const char* const kDepthwise = R"(
graph (x: u8[1x5x14x14]) {
  %1 = const data "w1" : i8[19x5]
  %2 = contract x, %1 ncpq,oc->nopq : i32[1x19x14x14]
  %3 = map (%2) { u8(min(max(round(f32($0) * 0.1), 0), 255)) } : u8[1x19x14x14]
  %4 = view %3 (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 * 2 + d4 - 1, d3 * 2 + d5 - 1) fill=0 : u8[1x19x7x7x3x3]
  %5 = const data "w2" : i8[19x3x3]
  %6 = contract %4, %5 ngpqij,gij->ngpq : i32[1x19x7x7]
  %7 = const data "b2" : i32[1x19x1x1]
  %8 = map (%6, %7) { u8(min(max(round(f32($0 + $1) * 0.05), 0), 255)) } : u8[1x19x7x7]
  return %8
})";
/// Rows that no tile of results holds, a depth that no operands' memory holds.
inline const char* const kDeep = R"(
graph (x: u8[200x600]) {
  %1 = const data "w1" : i8[600x40]
  %2 = contract x, %1 mk,kn->mn : i32[200x40]
  %3 = const data "b1" : i32[1x40]
  %4 = map (%2, %3) { u8(min(max(round(f32($0 + $1) * 0.001), 0), 255)) } : u8[200x40]
  return %4
})";

/// What a product sums over is a result, too: loops of the other result's channels don't hold it.
inline const char* const kKept = R"(
graph (x: f32[1x1x55x55], b: f32[1x16x1x1], w: f32[16]) {
  %1 = map (x, b) { max($0 + $1, 0) } : f32[1x16x55x55]
  %2 = contract %1, w nchw,c->nhw : f32[1x55x55]
  return %1, %2
})";

/// Two halves of a product's columns meet: the first one waits in a ring.
inline const char* const kHalves = R"(
graph (x: f32[16x4x256]) {
  %1 = const data "w" : f32[258x256]
  %2 = contract x, %1 npk,ck->ncp : f32[16x258x4]
  %3 = view %2 (d0, d1, d2) -> (d0, d1, d2) : f32[16x129x4]
  %4 = view %2 (d0, d1, d2) -> (d0, d1 + 129, d2) : f32[16x129x4]
  %5 = map (%3, %4) { sqrt($0 * $0 + $1 * $1) } : f32[16x129x4]
  return %5
})";

/// Reductions to few values, long enough to be shared by cores: a norm, extrema of rows and where they are, means over an outer axis.
inline const char* const kNorm = R"(
graph (x: f32[300001]) {
  %1 = map (x) { $0 * $0 } : f32[300001]
  %2 = reduce sum %1 axes=[0] : f32[1]
  %3 = map (%2) { sqrt($0) } : f32[1]
  return %3
})";
inline const char* const kExtrema = R"(
graph (x: f32[5x30011], b: f32[5x1]) {
  %2 = reduce max x axes=[1] : f32[5x1]
  %3 = map (%2, b) { $0 - $1 } : f32[5x1]
  return %2, %3
})";
inline const char* const kFirstMaximum = R"(
combine first_max(m: f32, i: i64; n: f32, j: i64) =
    select(m < n, n, m), select(m < n, j, select(n < m, i, min(i, j)))
    identity -inf, 9223372036854775807
graph (x: f32[3x50000], i: i64[3x50000]) {
  %2.0, %2.1 = reduce first_max x, i axes=[1] : f32[3x1], i64[3x1]
  return %2.0, %2.1
})";
inline const char* const kColumns = R"(
graph (x: f32[20000x7]) {
  %1 = reduce sum x axes=[0] : f32[1x7]
  %2 = map (%1) { $0 * 0.00005 } : f32[1x7]
  return %2
})";

}  // namespace tektite
