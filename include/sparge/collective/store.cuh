#pragma once
/// Writes a warp's rows of a result: accumulators to shared memory in the element type, then whole 16-byte chunks to memory.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"
#include "sparge/device/fragment.cuh"
#include "sparge/device/swizzle.cuh"

namespace sparge {

/// A fragment to 16 rows of a tile in shared memory, of `channels` a row, from its chunk `first_chunk` on.
template <class T, int channels, int columns>
__device__ __forceinline__ void stage_part(unsigned char* tile, Fragment<columns> const& fragment,
                                           int first_chunk) {
  using Rows = Fragment<columns>;
#pragma unroll
  for (int group = 0; group < Rows::groups; ++group)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int const offset =
          SwizzledTile<channels>::offset(Rows::row(r), first_chunk + group) + 4 * (lane_index() % 4);
      *reinterpret_cast<std::uint32_t*>(tile + offset) =
          pack<T>(fragment.at(r, group, 0), fragment.at(r, group, 1));
    }
}

/// `tile` is this warp's own 16 rows of swizzled shared memory.
template <class T, int channels>
__device__ __forceinline__ void stage_rows(unsigned char* tile, Fragment<channels> const& fragment) {
  stage_part<T, channels>(tile, fragment, 0);
}

/// Copies `rows` staged rows to `out`, whose row 0 is the first of them; rows at or past `valid_rows` are left out.
template <int rows, int channels, class T>
__device__ __forceinline__ void store_rows(unsigned char const* tile, T* out, std::int64_t row_stride,
                                           int valid_rows) {
  using Tile = SwizzledTile<channels>;
  constexpr int rows_a_pass = 32 / Tile::chunks;
  int const chunk = lane_index() % Tile::chunks;
#pragma unroll
  for (int pass = 0; pass < rows / rows_a_pass; ++pass) {
    int const row = pass * rows_a_pass + lane_index() / Tile::chunks;
    uint4 const values = *reinterpret_cast<uint4 const*>(tile + Tile::offset(row, chunk));
    if (row < valid_rows)
      *reinterpret_cast<uint4*>(out + row * row_stride + chunk * (chunk_bytes / 2)) = values;
  }
}

}  // namespace sparge
