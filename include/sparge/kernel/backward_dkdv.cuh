#pragma once
/// Gradients of K and V: one thread block computes `kv_tile` key rows of one kv head over the query blocks that keep them, in
/// every query head of the group, in ascending order.

#include <cstdint>

#include "sparge/collective/column_walk.cuh"
#include "sparge/collective/dkdv_loop_sm80.cuh"
#include "sparge/collective/store.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/kernel/backward_params.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/plan/refuse.hpp"

namespace sparge {

/// The skeleton: locate the key tile, walk its column of the mask through the main loop, scale and store.
template <BackwardConfig config>
class BackwardDkdv {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Params = BackwardParams<T>;
  using Loop = DkdvLoopSm80<config, T>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  static Status enqueue(Params const& params, std::int64_t blocks, cudaStream_t stream) noexcept {
    return launch_result("dK and dV kernel",
                         launch<BackwardDkdv>(params, blocks, config.smem_bytes(), stream));
  }

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    TilePosition const at = head_major_tile(blockIdx.x, params.kv_tiles, params.kv_heads);
    Loop loop(smem, queries_of(params, at), params.scale);
    loop.request_keys(head_of(params.k, at.batch, at.head, params.kv_tokens),
                      head_of(params.v, at.batch, at.head, params.kv_tokens), at.tile * config.kv_tile);
    typename Loop::Result result;
    loop.run(walk_column(params, at), result);
    store(params, at, result, smem);
  }

private:
  /// Of the group's first head, among those of all batch items.
  static __device__ __forceinline__ std::int64_t first_head(Params const& params, TilePosition const& at) {
    return std::int64_t{at.batch} * params.heads + at.head * params.heads_per_kv_head;
  }

  static __device__ __forceinline__ QueryGroup<T> queries_of(Params const& params, TilePosition const& at) {
    int const head = at.head * params.heads_per_kv_head;
    std::int64_t const row = first_head(params, at) * params.padded_rows;
    return {head_of(params.q, at.batch, head, params.q_tokens),
            head_of(params.grad_out, at.batch, head, params.q_tokens),
            params.q.stride[1],
            params.grad_out.stride[1],
            params.row_lse + row,
            params.delta + row,
            params.padded_rows};
  }

  static __device__ __forceinline__ GroupWalk walk_column(Params const& params, TilePosition const& at) {
    std::int64_t const head_words = std::int64_t{params.q_blocks} * params.row_words;
    int const block = at.tile / params.kv_tiles_per_block;
    ColumnWords const words{params.mask + first_head(params, at) * head_words + block / 32, params.row_words,
                            block % 32};
    return {words,         head_words, params.heads_per_kv_head, params.q_blocks, params.q_tiles_per_block,
            params.q_tiles};
  }

  /// Gradients are staged where K and V were; then each warp writes a quarter of the rows, all channels.
  static __device__ __forceinline__ void store(Params const& params, TilePosition const& at,
                                               typename Loop::Result& result, unsigned char* smem) {
    using Tile = typename Loop::Tile;
    unsigned char* const staged = smem + Loop::first_key() * Tile::row_bytes;
#pragma unroll
    for (int f = 0; f < Loop::fragments; ++f) {
      result.grad_k[f].scale_row(0, params.scale);
      result.grad_k[f].scale_row(1, params.scale);
      unsigned char* const rows = staged + 16 * f * Tile::row_bytes;
      stage_part<T, config.head_dim>(rows, result.grad_k[f], Loop::first_chunk());
      stage_part<T, config.head_dim>(rows + Loop::kv_bytes, result.grad_v[f], Loop::first_chunk());
    }
    __syncthreads();
    constexpr int warp_rows = config.kv_tile / config.warps;
    int const row = warp_index() * warp_rows, first = at.tile * config.kv_tile + row;
    store_rows_of(params.grad_k, at, first, params.kv_tokens - first, smem + row * Tile::row_bytes);
    store_rows_of(params.grad_v, at, first, params.kv_tokens - first,
                  smem + Loop::kv_bytes + row * Tile::row_bytes);
  }

  static __device__ __forceinline__ void store_rows_of(TensorView<T> const& view, TilePosition const& at,
                                                       int first, int valid_rows,
                                                       unsigned char const* staged) {
    T* const out = view.data + at.batch * view.stride[0] + at.head * view.stride[1] + first * view.stride[2];
    store_rows<config.kv_tile / config.warps, config.head_dim>(staged, out, view.stride[2], valid_rows);
  }
};

}  // namespace sparge
