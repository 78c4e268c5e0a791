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

/// __syncwarp() by a named barrier of this warp's own, for warps 0 to 7 of a block whose other barriers are below 8. Where the
/// compiler knows that lanes are together it leaves no instruction of a __syncwarp(), and a checker of races does not see one.
__device__ __forceinline__ void sync_warp_visibly() {
  asm volatile(
      "{\n.reg .u32 barrier;\n"
      "mov.u32 barrier, %tid.x;\n"
      "shr.u32 barrier, barrier, 5;\n"
      "add.u32 barrier, barrier, 8;\n"
      "bar.sync barrier, 32;\n}\n" ::
          : "memory");
}

/// Index of this warp in a one-dimensional grid.
__device__ __forceinline__ std::int64_t grid_warp(int warps_per_block) {
  return std::int64_t{blockIdx.x} * warps_per_block + warp_index();
}

}  // namespace sparge
