#pragma once
/// Reductions over a whole warp; every lane gets the result. Orders are fixed.

#include <cstdint>

#include "sparge/device/fragment.cuh"

namespace sparge {

inline constexpr unsigned all_lanes = 0xffffffffu;

template <class Value>
__device__ __forceinline__ Value warp_sum(Value value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(all_lanes, value, offset);
  return value;
}

/// Ignores NaN, as fmaxf does; all NaN gives NaN.
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}

/// Set bits of a ballot that belong to lower lanes.
__device__ __forceinline__ int count_lower_lanes(unsigned ballot) {
  return __popc(ballot & ((1u << lane_index()) - 1));
}

/// lane_index(), read anew. The compiler knows that lane_index() stays the same, and keeps addresses that follow from it in registers
/// all the while, where there may be none left.
__device__ __forceinline__ int reread_lane_index() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// Index of this warp in a one-dimensional grid.
__device__ __forceinline__ std::int64_t grid_warp(int warps_per_block) {
  return std::int64_t{blockIdx.x} * warps_per_block + warp_index();
}

}  // namespace sparge
