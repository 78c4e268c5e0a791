#pragma once
/// Copies a tile of tokens into swizzled shared memory with cp.async.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"
#include "sparge/device/cp_async.cuh"
#include "sparge/device/swizzle.cuh"

namespace sparge {

/// The tokens of one (batch, head), where `data` is token 0.
template <class T>
struct HeadView {
  T const* data;
  std::int64_t token_stride;  ///< in elements
  int tokens;
};

template <class T>
__device__ __forceinline__ HeadView<T> head_of(TensorView<T const> const& view, int batch, int head,
                                               int tokens) {
  return {view.data + batch * view.stride[0] + head * view.stride[1], view.stride[2], tokens};
}

/// Tokens first .. first + rows - 1 by all `threads` of the block; rows past the last token become zeros.
template <int rows, int channels, int threads, class T>
__device__ __forceinline__ void load_tile(std::uint32_t shared, HeadView<T> const& head, int first) {
  using Tile = SwizzledTile<channels>;
  static_assert(rows * Tile::chunks % threads == 0 && threads % Tile::chunks == 0);
  constexpr int rows_a_pass = threads / Tile::chunks;
  int const row = static_cast<int>(threadIdx.x) / Tile::chunks;
  int const chunk = static_cast<int>(threadIdx.x) % Tile::chunks;
  T const* source = head.data + (first + row) * head.token_stride + chunk * (chunk_bytes / 2);
  std::int64_t step = rows_a_pass * head.token_stride;
  asm volatile("" : "+l"(step));  // else every multiple of it is kept in registers through the main loop
#pragma unroll
  for (int pass = 0; pass < rows / rows_a_pass; ++pass, source += step) {
    int const tile_row = row + pass * rows_a_pass;
    cp_async_16(shared + Tile::offset(tile_row, chunk), source, first + tile_row < head.tokens);
  }
}

}  // namespace sparge
