#pragma once
/// Gradient of Q: one thread block computes `q_tile` query rows of one head over their kept key blocks, as forward does.

#include <cstdint>

#include "sparge/collective/dq_loop_sm80.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/store.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/kernel/backward_params.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/plan/refuse.hpp"

namespace sparge {

/// The skeleton: locate the tile, walk its mask row through the main loop, scale and store.
template <BackwardConfig config>
class BackwardDq {
public:
  using T = std::conditional_t<config.dtype == ElementType::bf16, bfloat16, float16>;
  using Params = BackwardParams<T>;
  using Loop = DqLoopSm80<config, T>;
  static constexpr int threads = config.threads(), ctas_per_sm = config.ctas_per_sm;
  static constexpr std::int64_t most_smem_bytes = config.smem_bytes();

  static Status enqueue(Params const& params, std::int64_t blocks, cudaStream_t stream) noexcept {
    return launch_result("dQ kernel", launch<BackwardDq>(params, blocks, config.smem_bytes(), stream));
  }

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    TilePosition const at = head_major_tile(blockIdx.x, params.q_tiles, params.heads);
    int const kv_head = at.head / params.heads_per_kv_head;
    Loop loop(smem, head_of(params.k, at.batch, kv_head, params.kv_tokens),
              head_of(params.v, at.batch, kv_head, params.kv_tokens), params.scale);
    loop.request_rows(head_of(params.q, at.batch, at.head, params.q_tokens),
                      head_of(params.grad_out, at.batch, at.head, params.q_tokens), at.tile * config.q_tile);
    Values lse = read_rows(params, at, params.row_lse);
    Values const delta = read_rows(params, at, params.delta);
    typename Loop::Result grad_q;
    loop.run(walk_row(params, at), lse, delta, grad_q);
    store(params, at, lse, grad_q, smem);
  }

private:
  using Values = RowValues<Loop::fragments>;

  static __device__ __forceinline__ int warp_first(TilePosition const& at) {
    return at.tile * config.q_tile + warp_index() * Loop::warp_rows;
  }

  /// Of the lane's rows; arrays over rows are padded to whole tiles.
  static __device__ __forceinline__ Values read_rows(Params const& params, TilePosition const& at,
                                                     float const* rows) {
    std::int64_t const head = std::int64_t{at.batch} * params.heads + at.head;
    float const* const first = rows + head * params.padded_rows + warp_first(at);
    Values values;
#pragma unroll
    for (int f = 0; f < Loop::fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) values.of[f][r] = first[16 * f + Fragment<config.head_dim>::row(r)];
    return values;
  }

  static __device__ __forceinline__ PlacedTileWalk walk_row(Params const& params, TilePosition const& at) {
    std::int64_t const head = std::int64_t{at.batch} * params.heads + at.head;
    std::int64_t const row = head * params.q_blocks + at.tile / params.q_tiles_per_block;
    return PlacedTileWalk({RowWalk({params.mask + row * params.row_words}, params.kv_blocks),
                           params.kv_tiles_per_block, params.kv_tiles});
  }

  /// A warp stages its rows where its own part of Q was, which no other warp reads. A row that keeps no key is 0 whatever it
  /// read.
  static __device__ __forceinline__ void store(Params const& params, TilePosition const& at,
                                               Values const& lse, typename Loop::Result& grad_q,
                                               unsigned char* smem) {
    constexpr int row_bytes = SwizzledTile<config.head_dim>::row_bytes;
    unsigned char* const staged = smem + warp_index() * Loop::warp_rows * row_bytes;
#pragma unroll
    for (int f = 0; f < Loop::fragments; ++f) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (lse.of[f][r] == infinity())
          grad_q[f].clear_row(r);
        else
          grad_q[f].scale_row(r, params.scale);
      }
      stage_rows<T>(staged + 16 * f * row_bytes, grad_q[f]);
    }
    __syncwarp();
    TensorView<T> const& view = params.grad_q;
    T* const out =
        view.data + at.batch * view.stride[0] + at.head * view.stride[1] + warp_first(at) * view.stride[2];
    store_rows<Loop::warp_rows, config.head_dim>(staged, out, view.stride[2],
                                                 params.q_tokens - warp_first(at));
  }
};

}  // namespace sparge
