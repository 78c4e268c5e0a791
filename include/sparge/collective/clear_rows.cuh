#pragma once
/// Zeros for rows to which nothing was kept.

#include <cstdint>

#include "sparge/collective/tile_order.cuh"
#include "sparge/core/tensor_view.hpp"
#include "sparge/device/warp.cuh"

namespace sparge {

/// By one warp: `rows` rows of the tile's head, from token `first` on.
template <int head_dim, class T>
__device__ __forceinline__ void clear_rows(TensorView<T> const& view, TilePosition const& at, int first,
                                           int rows) {
  constexpr int lanes_a_row = head_dim / 8;
  T* const tile = view.data + at.batch * view.stride[0] + at.head * view.stride[1] + first * view.stride[2];
#pragma unroll 1
  for (int row = lane_index() / lanes_a_row; row < rows; row += 32 / lanes_a_row)
    *reinterpret_cast<uint4*>(tile + row * view.stride[2] + lane_index() % lanes_a_row * 8) =
        make_uint4(0, 0, 0, 0);
}

}  // namespace sparge
