#pragma once
/// Mean pooled key of each kv head. Scores are taken of keys minus this mean: it shifts every row of scores by a constant,
/// and takes away the common offset of real keys that would cost f32 scores their last bits.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A thread block takes 32 channels of one head: a lane each, the warps sharing the key blocks. Sums are f64, which
/// cannot overflow.
class MaskCentre {
public:
  using Params = MaskCentreParams;
  static constexpr int warps = 16, threads = 32 * warps, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    __shared__ double partial[warps][centre_channels];
    std::int64_t const slices = params.head_dim / centre_channels;
    std::int64_t const head = blockIdx.x / slices;
    std::int64_t const channel = blockIdx.x % slices * centre_channels + lane_index();
    float const* const keys = params.pooled_k + head * params.kv_blocks * params.head_dim + channel;
    double sum = 0;
#pragma unroll 4
    for (std::int64_t j = warp_index(); j < params.kv_blocks; j += warps) sum += keys[j * params.head_dim];
    partial[warp_index()][lane_index()] = sum;
    __syncthreads();
    if (warp_index() != 0) return;
    sum = 0;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) sum += partial[warp][lane_index()];
    params.key_mean[head * params.head_dim + channel] = static_cast<float>(sum / params.kv_blocks);
  }
};

SPARGE_INLINE cudaError_t launch_mask_centre(MaskCentreParams const& params, std::int64_t kv_heads,
                                             cudaStream_t stream) noexcept {
  return launch<MaskCentre>(params, kv_heads * (params.head_dim / centre_channels), 0, stream);
}

}  // namespace sparge
