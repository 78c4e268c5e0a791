#pragma once
/// Rows of f32 partial results: from a warp's accumulator to a slot, and, a lane's channels at a time, from slots to the tensor.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"
#include "sparge/device/chunk.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// A warp's 16 rows to rows of a slot that lie one after the other. `first` is the index of the first row's first value.
template <int head_dim>
__device__ __forceinline__ void store_slot_rows(Fragment<head_dim> const& rows, float* slots,
                                                std::uint32_t first) {
  using Rows = Fragment<head_dim>;
  int const lane = reread_lane_index();
  float* const mine = slots + (first + lane / 4 * head_dim + lane % 4 * 2);
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int group = 0; group < Rows::groups; ++group)
      *reinterpret_cast<float2*>(mine + 8 * r * head_dim + 8 * group) =
          make_float2(rows.at(r, group, 0), rows.at(r, group, 1));
}

/// When merging, `head_dim / 8` lanes share a row.
inline constexpr int lane_channels = 8;

/// sum += weight * this lane's channels, which are read once.
__device__ __forceinline__ void add_slot_row(float const* from, float weight, float (&sum)[lane_channels]) {
#pragma unroll
  for (int c = 0; c < lane_channels; c += 4) {
    float4 const x = __ldcs(reinterpret_cast<float4 const*>(from + c));
    sum[c] = fmaf(weight, x.x, sum[c]);
    sum[c + 1] = fmaf(weight, x.y, sum[c + 1]);
    sum[c + 2] = fmaf(weight, x.z, sum[c + 2]);
    sum[c + 3] = fmaf(weight, x.w, sum[c + 3]);
  }
}

/// Rounds this lane's channels.
template <class T>
__device__ __forceinline__ void store_lane_channels(float const (&sum)[lane_channels], T* to) {
  static_assert(chunk_elements<T> == lane_channels);
  *reinterpret_cast<uint4*>(to) = narrow_chunk<T>(sum);
}

}  // namespace sparge
