#pragma once
/// Mean pooled key of each kv head, and how large the centred keys of each channel are. Scores are taken of keys minus this
/// mean: it shifts every row of scores by a constant, and takes away the common offset of real keys that would cost f32
/// scores their last bits.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/math.cuh"
#include "sparge/device/split.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A thread block takes 32 channels of one head, a lane four of them in every 64th key block. Sums are f64, which cannot
/// overflow, in a fixed order. The least and the greatest key ignore NaN.
class MaskCentre {
public:
  using Params = MaskCentreParams;
  static constexpr int warps = 16, threads = 32 * warps, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    __shared__ Partial partial[warps][centre_channels];
    std::int64_t const slices = params.head_dim / centre_channels;
    std::int64_t const head = blockIdx.x / slices;
    std::int64_t const channel = blockIdx.x % slices * centre_channels;
    Partial of_lane[lane_channels];
    add_keys(params, params.pooled_k + head * params.kv_blocks * params.head_dim + channel, of_lane);
#pragma unroll
    for (int c = 0; c < lane_channels; ++c) {
#pragma unroll
      for (int offset = row_lanes; offset < 32; offset *= 2) of_lane[c].add(of_lane[c].from_lane(offset));
      if (lane_index() < row_lanes) partial[warp_index()][lane_index() * lane_channels + c] = of_lane[c];
    }
    __syncthreads();
    if (warp_index() != 0) return;
    Partial all = partial[0][lane_index()];
#pragma unroll 8
    for (int warp = 1; warp < warps; ++warp) all.add(partial[warp][lane_index()]);
    store(params, head * params.head_dim + channel + lane_index(), all);
  }

private:
  static constexpr int lane_channels = 4, row_lanes = centre_channels / lane_channels;
  static constexpr int rows = 32 / row_lanes;  ///< key blocks that a warp reads at once
  static constexpr int step = warps * rows;
  /// So that 2^14 / size is a normal number too. Smaller keys score as if there were no smaller size, larger ones do not exist.
  static constexpr int least_size_log2 = -112, greatest_size_log2 = 127;

  static constexpr int loads = 4;  ///< in flight

  struct Partial {
    double sum;
    float least, greatest;

    static __device__ __forceinline__ Partial none() { return {0, infinity(), -infinity()}; }
    __device__ __forceinline__ void add(Partial const& other) {
      sum += other.sum;
      least = fminf(least, other.least), greatest = fmaxf(greatest, other.greatest);
    }
    __device__ __forceinline__ Partial from_lane(int offset) const {
      return {__shfl_xor_sync(all_lanes, sum, offset), __shfl_xor_sync(all_lanes, least, offset),
              __shfl_xor_sync(all_lanes, greatest, offset)};
    }
  };

  static __device__ __forceinline__ void add_keys(Params const& params, float const* keys,
                                                  Partial (&of_lane)[lane_channels]) {
#pragma unroll
    for (int c = 0; c < lane_channels; ++c) of_lane[c] = Partial::none();
    float const* const mine = keys + lane_index() % row_lanes * lane_channels;
    int const first = warp_index() * rows + lane_index() / row_lanes;
    for (std::int64_t block = first; block < params.kv_blocks; block += loads * step) {
      float4 key[loads];
#pragma unroll
      for (int i = 0; i < loads; ++i)
        if (block + i * step < params.kv_blocks)
          key[i] = __ldg(reinterpret_cast<float4 const*>(mine + (block + i * step) * params.head_dim));
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        if (block + i * step >= params.kv_blocks) break;
        add(of_lane[0], key[i].x), add(of_lane[1], key[i].y), add(of_lane[2], key[i].z);
        add(of_lane[3], key[i].w);
      }
    }
  }

  static __device__ __forceinline__ void add(Partial& partial, float key) {
    partial.add(Partial{key, key, key});
  }

  /// Subtraction rounds monotonically, so no centred key is larger than the larger of the two ends.
  static __device__ __forceinline__ void store(Params const& params, std::int64_t at, Partial const& all) {
    float const mean = static_cast<float>(all.sum / params.kv_blocks);
    params.key_mean[at] = mean;
    int const exponent = exponent_of(fmaxf(all.greatest - mean, mean - all.least));
    params.key_size[at] = power_of_two(min(max(exponent, least_size_log2), greatest_size_log2));
  }
};

SPARGE_INLINE cudaError_t launch_mask_centre(MaskCentreParams const& params, std::int64_t kv_heads,
                                             cudaStream_t stream) noexcept {
  return launch<MaskCentre>(params, kv_heads * (params.head_dim / centre_channels), 0, stream);
}

}  // namespace sparge
