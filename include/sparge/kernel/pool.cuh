#pragma once
/// Mean over the valid tokens of each block, f32. One warp reads one block of tokens once, 16 bytes a load.

#include <cstdint>

#include "sparge/device/warp.cuh"
#include "sparge/device/widen.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A lane owns 8 channels of every `rows`-th token. Four tokens are added in f32 and the sums of four in f64, so a mean
/// carries three f32 roundings, the last included: its error is at most 3 * 2^-24 * mean|x|.
template <class T, int head_dim>
class Pool {
public:
  using Params = PoolParams<T>;
  static constexpr int threads = 32 * pool_warps, ctas_per_sm = 8;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    if (params.streams)
      pool<LoadOnce>(params);
    else
      pool<LoadCached>(params);
  }

private:
  static constexpr int channels = 8;                     ///< of a lane: one load
  static constexpr int row_lanes = head_dim / channels;  ///< lanes that share a token
  static constexpr int rows = 32 / row_lanes;            ///< tokens that a warp loads at once
  static constexpr int loads = 8;                        ///< in flight

  struct LoadCached {
    static __device__ __forceinline__ uint4 load(uint4 const* x) { return __ldg(x); }
  };
  /// Leaves the L2 cache to what follows: pooled vectors, keys in parts, code.
  struct LoadOnce {
    static __device__ __forceinline__ uint4 load(uint4 const* x) { return __ldcs(x); }
  };

  template <class Load>
  static __device__ __forceinline__ void pool(Params const& params) {
    std::int64_t const block = grid_warp(pool_warps);
    if (block < params.q_blocks)
      pool_block<Load>(params.q, block);
    else if (block < params.q_blocks + params.k_blocks)
      pool_block<Load>(params.k, block - params.q_blocks);
  }

  template <class Load>
  static __device__ __forceinline__ void pool_block(PoolInput<T> const& input, std::int64_t index) {
    std::int64_t const head = index / input.blocks, block = index % input.blocks;
    std::int64_t const first = block * input.block_tokens;
    std::int64_t const left = input.x.shape[2] - first;
    int const tokens = left < input.block_tokens ? static_cast<int>(left) : input.block_tokens;
    T const* const x = input.x.data + head / input.x.shape[1] * input.x.stride[0] +
                       head % input.x.shape[1] * input.x.stride[1] + first * input.x.stride[2] +
                       lane_index() % row_lanes * channels;
    double sum[channels] = {};
    for (int token = lane_index() / row_lanes; token - lane_index() / row_lanes < tokens;
         token += loads * rows)
      add_tokens<Load>(x, input.x.stride[2], token, tokens, sum);
    combine_lanes(sum);
    if (lane_index() < row_lanes)
      store_mean(sum, tokens, input.pooled + index * head_dim + lane_index() * channels);
  }

  /// Tokens past the last valid one are not read; they add 0.
  template <class Load>
  static __device__ __forceinline__ void add_tokens(T const* x, std::int64_t stride, int token, int tokens,
                                                    double (&sum)[channels]) {
    uint4 in[loads];
#pragma unroll
    for (int i = 0; i < loads; ++i) {
      int const t = token + i * rows;
      in[i] =
          t < tokens ? Load::load(reinterpret_cast<uint4 const*>(x + t * stride)) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < loads; i += 4) {
      add_four(in[i].x, in[i + 1].x, in[i + 2].x, in[i + 3].x, sum[0], sum[1]);
      add_four(in[i].y, in[i + 1].y, in[i + 2].y, in[i + 3].y, sum[2], sum[3]);
      add_four(in[i].z, in[i + 1].z, in[i + 2].z, in[i + 3].z, sum[4], sum[5]);
      add_four(in[i].w, in[i + 1].w, in[i + 2].w, in[i + 3].w, sum[6], sum[7]);
    }
  }

  /// Adds a quarter of the sum of four tokens for two channels: quarters are exact and cannot overflow.
  static __device__ __forceinline__ void add_four(std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                                  std::uint32_t d, double& low, double& high) {
    float2 const x = widen<T>(a), y = widen<T>(b), z = widen<T>(c), w = widen<T>(d);
    low += (fmaf(x.x, 0.25f, 0.25f * y.x) + fmaf(z.x, 0.25f, 0.25f * w.x));
    high += (fmaf(x.y, 0.25f, 0.25f * y.y) + fmaf(z.y, 0.25f, 0.25f * w.y));
  }

  static __device__ __forceinline__ void combine_lanes(double (&sum)[channels]) {
#pragma unroll
    for (int offset = row_lanes; offset < 32; offset *= 2)
#pragma unroll
      for (int c = 0; c < channels; ++c) sum[c] += __shfl_xor_sync(all_lanes, sum[c], offset);
  }

  static __device__ __forceinline__ void store_mean(double const (&sum)[channels], int tokens, float* out) {
    double const share = 4.0 / tokens;
    auto const mean = [&](int c) { return static_cast<float>(sum[c] * share); };
    reinterpret_cast<float4*>(out)[0] = make_float4(mean(0), mean(1), mean(2), mean(3));
    reinterpret_cast<float4*>(out)[1] = make_float4(mean(4), mean(5), mean(6), mean(7));
  }
};

template <class T>
cudaError_t launch_pool(PoolParams<T> const& params, std::int32_t head_dim, cudaStream_t stream) noexcept {
  std::int64_t const blocks = ceil_div(params.q_blocks + params.k_blocks, pool_warps);
  if (head_dim == 64) return launch<Pool<T, 64>>(params, blocks, 0, stream);
  if (head_dim == 128) return launch<Pool<T, 128>>(params, blocks, 0, stream);
  return cudaErrorInvalidValue;  // a problem of another head_dim is refused long before
}

}  // namespace sparge
