#pragma once
/// A warp's 16 rows of a result on their way to memory: accumulators to shared memory in the element type, then on by the copy
/// engine. Between the two, fence_shared_for_copies().

#include <cstdint>

#include "sparge/collective/panels_sm90.cuh"
#include "sparge/device/convert.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// Rows times `factor`, rounded, to panels that lie `panel_bytes` apart.
template <class T, int head_dim>
__device__ __forceinline__ void stage_rows(Fragment<head_dim> const& rows, float factor, std::uint32_t staged,
                                           int panel_bytes) {
  int const lane = reread_lane_index(), row = lane % 16, half = lane / 16;
#pragma unroll
  for (int i = 0; i < head_dim / 16; ++i) {
    std::uint32_t values[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      int const group = 2 * i + j / 2, r = j % 2;
      values[j] = pack<T>(rows.at(r, group, 0) * factor, rows.at(r, group, 1) * factor);
    }
    stmatrix(chunk_of_step(staged, row, half, i, panel_bytes), values);
  }
}

/// By the whole warp, once all its lanes have fenced: what was staged, to the rows from `at` on.
template <int head_dim>
__device__ __forceinline__ void store_staged_rows(CUtensorMap const& tensor, BoxOrigin at,
                                                  std::uint32_t staged, int panel_bytes) {
  BoxOrigin const origin{0, uniform(at.token), uniform(at.head), uniform(at.batch)};
  std::uint32_t const from = uniform(staged);
  if (elect_lane()) store_panels<head_dim / panel_channels>(tensor, origin, from, panel_bytes);
  __syncwarp();
}

/// Returns when what this warp stored so far no longer needs to lie where it was staged.
__device__ __forceinline__ void wait_for_staged_rows() {
  if (elect_lane()) wait_for_store_reads();
  __syncwarp();
}

}  // namespace sparge
