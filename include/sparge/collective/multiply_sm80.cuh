#pragma once
/// The two kinds of product that attention is made of, for one warp, with ldmatrix and mma.sync.

#include <cstdint>

#include "sparge/device/fragment.cuh"
#include "sparge/device/ldmatrix.cuh"
#include "sparge/device/mma_sm80.cuh"
#include "sparge/device/swizzle.cuh"

namespace sparge {

/// Hides where a value came from: the compiler would otherwise keep every address derived from it across the main loop.
__device__ __forceinline__ std::uint32_t opaque(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// out(i, j) = <row i of A, row j of B>, both of them tiles in shared memory: rows `a_first`.. of A, `b_first`.. of B.
/// Firsts are multiples of 8.
template <class T, int channels, int fragments, int columns>
__device__ __forceinline__ void multiply_rows(Fragment<columns> (&out)[fragments], std::uint32_t a_tile,
                                              int a_first, std::uint32_t b_tile, int b_first) {
  using Tile = SwizzledTile<channels>;
  int const lane = lane_index();
  std::uint32_t const a_lane = opaque(a_tile + Tile::offset(a_first + lane % 16, lane / 16));
  std::uint32_t const b_lane =
      opaque(b_tile + Tile::offset(b_first + lane % 8 + lane / 16 * 8, lane / 8 % 2));
#pragma unroll
  for (int f = 0; f < fragments; ++f) out[f].clear();
#pragma unroll
  for (int step = 0; step < channels / 16; ++step) {
    std::uint32_t a[fragments][4];
#pragma unroll
    for (int f = 0; f < fragments; ++f)
      ldmatrix(a[f], Tile::step(a_lane, 2 * step) + 16 * f * Tile::row_bytes);
#pragma unroll
    for (int rows = 0; rows < columns / 16; ++rows) {
      std::uint32_t b[4];
      ldmatrix(b, Tile::step(b_lane, 2 * step) + 16 * rows * Tile::row_bytes);
#pragma unroll
      for (int f = 0; f < fragments; ++f) {
        mma_16x8x16<T>(out[f].value[2 * rows], a[f], b[0], b[1]);
        mma_16x8x16<T>(out[f].value[2 * rows + 1], a[f], b[2], b[3]);
      }
    }
  }
}

/// out += A B for `inner` rows of B, a tile of `channels` in shared memory, from whose chunk `b_chunk` on `columns` are
/// taken. `load_a(a, step)` gives columns 16 step .. 16 step + 15 of A as operands, one a fragment.
template <class T, int inner, int channels, int fragments, int columns, class LoadA>
__device__ __forceinline__ void accumulate_product(Fragment<columns> (&out)[fragments], LoadA load_a,
                                                   std::uint32_t b_tile, int b_chunk) {
  using Tile = SwizzledTile<channels>;
  int const lane = lane_index();
  std::uint32_t const b_lane = opaque(b_tile + Tile::offset(lane % 16, b_chunk + lane / 16));
#pragma unroll
  for (int step = 0; step < inner / 16; ++step) {
    std::uint32_t a[fragments][4];
    load_a(a, step);
#pragma unroll
    for (int pair = 0; pair < columns / 16; ++pair) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, Tile::step(b_lane, 2 * pair) + 16 * step * Tile::row_bytes);
#pragma unroll
      for (int f = 0; f < fragments; ++f) {
        mma_16x8x16<T>(out[f].value[2 * pair], a[f], b[0], b[1]);
        mma_16x8x16<T>(out[f].value[2 * pair + 1], a[f], b[2], b[3]);
      }
    }
  }
}

/// A of accumulate_product that is in registers, rounded to T on its way.
template <class T, int fragments, int columns>
__device__ __forceinline__ auto operand_of(Fragment<columns> const (&values)[fragments]) {
  return [&values](std::uint32_t(&a)[fragments][4], int step) {
#pragma unroll
    for (int f = 0; f < fragments; ++f) values[f].template to_operand<T>(a[f], step);
  };
}

}  // namespace sparge
