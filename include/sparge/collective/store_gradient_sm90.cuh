#pragma once
/// A warp's 16 rows of a gradient: accumulators to shared memory in the element type, then to memory by the copy engine.

#include <cstdint>

#include "sparge/device/convert.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// Rows times `factor`, rounded, to panels of 64 channels that lie `panel_bytes` apart.
template <class T, int head_dim>
__device__ __forceinline__ void stage_gradient(Fragment<head_dim> const& grad, float factor,
                                               std::uint32_t staged, int panel_bytes) {
  int const lane = reread_lane_index(), row = lane % 16, half = lane / 16;
#pragma unroll
  for (int i = 0; i < head_dim / 16; ++i) {
    std::uint32_t values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int const group = 2 * i + j / 2, r = j % 2;
      values[j] = pack<T>(grad.at(r, group, 0) * factor, grad.at(r, group, 1) * factor);
    }
    stmatrix(staged + i / 4 * panel_bytes + SwizzledTile<64>::offset(row, 2 * (i % 4) + half), values);
  }
}

/// By the whole warp: what was staged, to the rows from `at` on. wait_for_stored_gradient() waits until it has been read.
template <int head_dim>
__device__ __forceinline__ void store_gradient(CUtensorMap const& tensor, BoxOrigin at, std::uint32_t staged,
                                               int panel_bytes) {
  int const token = uniform(at.token), head = uniform(at.head), batch = uniform(at.batch);
  std::uint32_t const from = uniform(staged);
  if (elect_lane()) {
#pragma unroll
    for (int panel = 0; panel < head_dim / 64; ++panel)
      store_box(tensor, {panel * 64, token, head, batch}, from + panel * panel_bytes);
    commit_stores();
  }
  __syncwarp();
}

/// Returns when what this warp stored so far no longer needs to lie where it was staged.
__device__ __forceinline__ void wait_for_stored_gradient() {
  if (elect_lane()) wait_for_store_reads();
  __syncwarp();
}

}  // namespace sparge
