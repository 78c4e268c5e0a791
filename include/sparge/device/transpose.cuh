#pragma once
/// A square of 32 x 32 bits, a row a lane, turned around within a warp.

#include <cstdint>

#include "sparge/device/warp.cuh"

namespace sparge {

/// Bit j of lane i becomes bit i of lane j: blocks of 16, then of 8, .. change places.
__device__ __forceinline__ std::uint32_t transpose_bits(std::uint32_t row) {
  std::uint32_t low = 0x0000ffff;
#pragma unroll
  for (int step = 16; step > 0; step /= 2, low ^= low << step) {
    std::uint32_t const other = __shfl_xor_sync(all_lanes, row, step);
    bool const is_upper = (lane_index() & step) != 0;
    row = is_upper ? (row & ~low) | (other & ~low) >> step : (row & low) | (other & low) << step;
  }
  return row;
}

}  // namespace sparge
