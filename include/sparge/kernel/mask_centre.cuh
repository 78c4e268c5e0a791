#pragma once
/// Keys as scores want them. Scores are taken of keys minus the mean pooled key of their head: it shifts every row of scores
/// by a constant, and takes away the common offset of real keys that would cost f32 scores their last bits.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/math.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"
#include "sparge/kernel/mask_score_operands.cuh"

namespace sparge {

__device__ __forceinline__ KeySum no_keys() { return {0, infinity(), -infinity()}; }

__device__ __forceinline__ void add(KeySum& sum, KeySum const& other) {
  sum.sum += other.sum;
  sum.least = fminf(sum.least, other.least), sum.greatest = fmaxf(sum.greatest, other.greatest);
}

/// Sums a segment of the keys of one head. A lane takes four channels of every `step`-th key block. Sums are f64, which cannot
/// overflow, in a fixed order. The least and the greatest key ignore NaN.
template <int head_dim>
class MaskCentre {
public:
  using Params = MaskKeysParams;
  static constexpr int warps = 8, threads = 32 * warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    let_next_kernel_start();
    wait_for_kernel_before();
    __shared__ KeySum of_line[lines][head_dim];
    std::int64_t const head = blockIdx.x / params.segments;
    int const segment = static_cast<int>(blockIdx.x % params.segments);
    int const first = segment * params.segment_blocks,
              end = min(first + params.segment_blocks, params.kv_blocks);
    int const channel = static_cast<int>(threadIdx.x) % row_lanes * 4,
              line = static_cast<int>(threadIdx.x) / row_lanes;
    KeySum sum[4];
    add_keys(params.pooled_k + head * params.kv_blocks * head_dim + channel, first + line, end, sum);
#pragma unroll
    for (int c = 0; c < 4; ++c) of_line[line][channel + c] = sum[c];
    __syncthreads();
    int const mine = static_cast<int>(threadIdx.x);
    if (mine >= head_dim) return;
    KeySum all = of_line[0][mine];
#pragma unroll
    for (int i = 1; i < lines; ++i) add(all, of_line[i][mine]);
    params.sums[(head * params.segments + segment) * head_dim + mine] = all;
  }

private:
  static constexpr int row_lanes = head_dim / 4, lines = threads / row_lanes;
  static constexpr int loads = 8;  ///< in flight

  static __device__ __forceinline__ void add_keys(float const* keys, int first, int end, KeySum (&sum)[4]) {
#pragma unroll
    for (int c = 0; c < 4; ++c) sum[c] = no_keys();
    for (int block = first; block < end; block += loads * lines) {
      float4 key[loads];
#pragma unroll
      for (int i = 0; i < loads; ++i)
        if (block + i * lines < end)
          key[i] = __ldg(reinterpret_cast<float4 const*>(keys + std::int64_t{block + i * lines} * head_dim));
#pragma unroll
      for (int i = 0; i < loads; ++i) {
        if (block + i * lines >= end) break;
        float const of_channel[4] = {key[i].x, key[i].y, key[i].z, key[i].w};
#pragma unroll
        for (int c = 0; c < 4; ++c) add(sum[c], {of_channel[c], of_channel[c], of_channel[c]});
      }
    }
  }
};

/// Centres and splits a tile of the keys of one head, after adding up the sums of its segments.
template <int head_dim>
class MaskSplitKeys {
public:
  using Params = MaskKeysParams;
  static constexpr int threads = 256, ctas_per_sm = 3;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    let_next_kernel_start();
    wait_for_kernel_before();
    __shared__ float mean[head_dim], size[head_dim];
    std::int64_t const tiles = (params.kv_blocks + split_tile_blocks - 1) / split_tile_blocks;
    std::int64_t const head = blockIdx.x / tiles, tile = blockIdx.x % tiles;
    int const chunk = static_cast<int>(threadIdx.x) % row_chunks,
              first = static_cast<int>(tile) * split_tile_blocks + static_cast<int>(threadIdx.x) / row_chunks;
    std::int64_t const key = head * params.kv_blocks + first;
    EightChannels k[loads];
#pragma unroll
    for (int i = 0; i < loads; ++i)
      if (first + i * lines < params.kv_blocks)
        k[i] = EightChannels::read(params.pooled_k + (key + i * lines) * head_dim + 8 * chunk);
    int const channel = static_cast<int>(threadIdx.x);
    if (channel < head_dim) {
      KeyScale const scale = scale_of(params, head, channel);
      mean[channel] = scale.mean, size[channel] = scale.size;
      if (tile == 0) {
        params.key_mean[head * head_dim + channel] = scale.mean;
        params.key_size[head * head_dim + channel] = scale.size;
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      if (first + i * lines >= params.kv_blocks) break;
#pragma unroll
      for (int c = 0; c < 8; ++c)
        k[i].x[c] = (k[i].x[c] - mean[8 * chunk + c]) * divide_power(split_top, size[8 * chunk + c]);
      store(params.split_keys + (key + i * lines) * 2 * head_dim + 8 * chunk, k[i]);
    }
  }

private:
  static constexpr int row_chunks = head_dim / 8, lines = threads / row_chunks,
                       loads = split_tile_blocks / lines;
  /// So that 2^14 / size is a normal number too. Smaller keys score as if there were no smaller size, larger ones do not exist.
  static constexpr int least_size_log2 = -112, greatest_size_log2 = 127;

  struct KeyScale {
    float mean, size;
  };

  /// Subtraction rounds monotonically, so no centred key is larger than the larger of the two ends.
  static __device__ __forceinline__ KeyScale scale_of(Params const& params, std::int64_t head, int channel) {
    KeySum const* const sums = params.sums + head * params.segments * head_dim + channel;
    KeySum all = no_keys();
#pragma unroll 8
    for (int i = 0; i < params.segments; ++i) {
      add(all, sums[i * head_dim]);
    }
    float const mean = static_cast<float>(all.sum / params.kv_blocks);
    int const exponent = exponent_of(fmaxf(all.greatest - mean, mean - all.least));
    return {mean, power_of_two(min(max(exponent, least_size_log2), greatest_size_log2))};
  }

  static __device__ __forceinline__ void store(std::uint16_t* out, EightChannels const& k) {
    SplitPair pair[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) pair[c] = split(k.x[2 * c], k.x[2 * c + 1]);
    *reinterpret_cast<uint4*>(out) = make_uint4(pair[0].high, pair[1].high, pair[2].high, pair[3].high);
    *reinterpret_cast<uint4*>(out + head_dim) =
        make_uint4(pair[0].low, pair[1].low, pair[2].low, pair[3].low);
  }
};

namespace detail {

template <int head_dim>
cudaError_t launch_mask_keys(MaskKeysParams const& params, std::int64_t kv_heads,
                             cudaStream_t stream) noexcept {
  cudaError_t const error =
      launch<MaskCentre<head_dim>>(params, kv_heads * params.segments, 0, stream, params.code_is_90a);
  if (error != cudaSuccess) return error;
  return launch<MaskSplitKeys<head_dim>>(params, kv_heads * ceil_div(params.kv_blocks, split_tile_blocks), 0,
                                         stream, params.code_is_90a);
}

}  // namespace detail

SPARGE_INLINE cudaError_t launch_mask_keys(MaskKeysParams const& params, std::int64_t kv_heads,
                                           cudaStream_t stream) noexcept {
  if (params.head_dim == 64) return detail::launch_mask_keys<64>(params, kv_heads, stream);
  if (params.head_dim == 128) return detail::launch_mask_keys<128>(params, kv_heads, stream);
  return cudaErrorInvalidValue;  // a problem of another head_dim is refused long before
}

}  // namespace sparge
