#pragma once
/// Block-sparse attention, forward: one thread block computes `q_tile` query rows of one head over their kept key blocks. And
/// the launch of every forward kernel.

#include <cstdint>

#include "sparge/collective/forward_loop_sm80.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/store.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/kernel/forward_params.hpp"
#include "sparge/kernel/forward_sm90.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/plan/forward_config.hpp"
#include "sparge/plan/refuse.hpp"

namespace sparge {

/// The skeleton: locate the tile, walk its mask row through the main loop, normalise and store.
template <ForwardConfig config>
class Forward {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Params = ForwardParams<T>;
  using Loop = ForwardLoopSm80<config, T>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  static Status enqueue(Params const& params, std::int64_t blocks, cudaStream_t stream) noexcept {
    return launch_result("forward kernel", launch<Forward>(params, blocks, config.smem_bytes(), stream));
  }

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    TilePosition const at = head_major_tile(blockIdx.x, params.q_tiles, params.heads);
    int const kv_head = at.head / params.heads_per_kv_head;
    Loop loop(smem, head_of(params.q, at.batch, at.head, params.q_tokens),
              head_of(params.k, at.batch, kv_head, params.kv_tokens),
              head_of(params.v, at.batch, kv_head, params.kv_tokens), params.scale_log2);
    loop.request_q(at.tile * config.q_tile);
    typename Loop::Result result;
    if (loop.template run<SoftmaxReference::scaled>(walk_row(params, at), result))
      loop.template run<SoftmaxReference::exact>(walk_row(params, at), result);
    store(params, at, result, smem);
  }

private:
  static __device__ __forceinline__ TileWalk<RowWalk> walk_row(Params const& params, TilePosition const& at) {
    std::int64_t const head = std::int64_t{at.batch} * params.heads + at.head;
    std::int64_t const row = head * params.q_blocks + at.tile / params.q_tiles_per_block;
    int const kv_tiles = (params.kv_tokens + config.kv_tile - 1) / config.kv_tile;
    return {RowWalk({params.mask + row * params.row_words}, params.kv_blocks), params.kv_tiles_per_block,
            kv_tiles};
  }

  /// A warp stages its rows where its own part of Q was, which no other warp reads.
  static __device__ __forceinline__ void store(Params const& params, TilePosition const& at,
                                               typename Loop::Result& result, unsigned char* smem) {
    int const warp_first = warp_index() * Loop::warp_rows;
    int const first = at.tile * config.q_tile + warp_first;
    unsigned char* const staged = smem + warp_first * SwizzledTile<config.head_dim>::row_bytes;
#pragma unroll
    for (int f = 0; f < Loop::fragments; ++f) {
      normalise(params, at, first, result, f);
      stage_rows<T>(staged + 16 * f * SwizzledTile<config.head_dim>::row_bytes, result.out[f]);
    }
    __syncwarp();
    T* const out = params.out.data + at.batch * params.out.stride[0] + at.head * params.out.stride[1] +
                   first * params.out.stride[2];
    store_rows<Loop::warp_rows, config.head_dim>(staged, out, params.out.stride[2], params.q_tokens - first);
  }

  /// Divides by the row sum and writes lse. A row that kept no key is 0 whatever it read, with lse = -inf.
  static __device__ __forceinline__ void normalise(Params const& params, TilePosition const& at,
                                                   int warp_first, typename Loop::Result& result, int f) {
    auto& out = result.out[f];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float const sum = result.softmax.row_sum(f, r);
      int const token = warp_first + 16 * f + out.row(r);
      if (sum == 0)
        out.clear_row(r);
      else
        out.scale_row(r, 1 / sum);
      if (params.lse && lane_index() % 4 == 0 && token < params.q_tokens)
        params.lse[(std::int64_t{at.batch} * params.heads + at.head) * params.q_tokens + token] =
            result.softmax.log_sum_exp(f, r, params.scale_log2, sum);
    }
  }
};

template <ForwardConfig config>
using ForwardKernel = std::conditional_t<config.arch == Arch::sm90a, ForwardSm90<config>, Forward<config>>;

template <int row>
Status launch_forward(ForwardParams<row_element<row>> const& params, std::int64_t blocks,
                      cudaStream_t stream) noexcept {
  return ForwardKernel<forward_table[row]>::enqueue(params, blocks, stream);
}

}  // namespace sparge
