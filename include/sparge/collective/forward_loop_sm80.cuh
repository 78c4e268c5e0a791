#pragma once
/// The forward main loop with cp.async and mma.sync: S = Q K^T, softmax, O += P V over the kept tiles of a row.

#include <cstdint>

#include "sparge/collective/load_tile.cuh"
#include "sparge/collective/multiply_sm80.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/online_softmax.cuh"
#include "sparge/plan/forward_config.hpp"

namespace sparge {

/// Each warp owns `q_tile / warps` query rows, as one or more fragments of 16, and every key of a tile.
///
/// K and V go through rings of `stages` tiles. V(i + stages - 1) is requested as soon as all warps are done with the V tile
/// that it replaces, before Q K(i)^T; K(i + stages) right after that product, before the softmax. One copy group each, so
/// at both waits the tile needed is the (2 stages - 1)-th latest group.
template <ForwardConfig config, class T>
class ForwardLoopSm80 {
public:
  static constexpr int head_dim = config.head_dim, kv_tile = config.kv_tile, stages = config.stages;
  static constexpr int threads = config.threads();
  static constexpr int fragments = config.q_tile / config.warps / 16;
  static constexpr int warp_rows = 16 * fragments;

  struct Result {
    Fragment<head_dim> out[fragments];  ///< not yet divided by the row sum
    OnlineSoftmax<fragments> softmax;
  };

  __device__ __forceinline__ ForwardLoopSm80(unsigned char* smem, HeadView<T> q, HeadView<T> k, HeadView<T> v,
                                             float scale_log2)
      : q_tile_(shared_address(smem)),
        k_ring_(q_tile_ + q_bytes),
        v_ring_(k_ring_ + stages * kv_bytes),
        q_(q),
        k_(k),
        v_(v),
        scale_log2_(scale_log2) {}

  /// Requests the block's query rows, from token `q_first` on: before the mask is read, so that the two waits overlap.
  __device__ __forceinline__ void request_q(int q_first) {
    load_tile<config.q_tile, head_dim, threads>(q_tile_, q_, q_first);
  }

  /// Computes the rows that were requested. On return no copy is in flight, no warp reads shared memory, and Q is still there.
  /// The result is the same for all threads: whether rows of the block must be computed again with the exact reference.
  template <SoftmaxReference how>
  __device__ __forceinline__ bool run(TileWalk<RowWalk> walk, Result& result) {
    int ahead[stages + 1];  // tiles i .. i + stages, -1 past the last
#pragma unroll
    for (int& tile : ahead) tile = walk.next();
    start(ahead, result);
    for (int slot = 0; ahead[0] >= 0; slot = next_slot(slot)) {
      cp_async_wait<2 * stages - 2>();
      __syncthreads();
      load_kv(v_ring_, v_, previous_slot(slot), ahead[stages - 1]);
      Fragment<kv_tile> logits[fragments];
      multiply_rows<T, head_dim>(logits, q_tile_, warp_index() * warp_rows, k_ring_ + slot * kv_bytes, 0);
      cp_async_wait<2 * stages - 2>();
      __syncthreads();
      load_kv(k_ring_, k_, slot, ahead[stages]);
      weigh<how>(logits, ahead[0], result);
      accumulate_product<T, kv_tile, head_dim>(result.out, operand_of<T>(logits), v_ring_ + slot * kv_bytes,
                                               0);
#pragma unroll
      for (int i = 0; i < stages; ++i) ahead[i] = ahead[i + 1];
      ahead[stages] = walk.next();
    }
    cp_async_wait<0>();
    return __syncthreads_or(how == SoftmaxReference::scaled && result.softmax.needs_exact(scale_log2_)) != 0;
  }

private:
  using Tile = SwizzledTile<head_dim>;
  static constexpr std::uint32_t q_bytes = config.q_tile * Tile::row_bytes;
  static constexpr std::uint32_t kv_bytes = kv_tile * Tile::row_bytes;

  static __device__ __forceinline__ int next_slot(int slot) { return slot + 1 == stages ? 0 : slot + 1; }
  static __device__ __forceinline__ int previous_slot(int slot) { return slot == 0 ? stages - 1 : slot - 1; }

  /// Requests the first tiles of both rings, all but the V tile that the loop's first step asks for.
  __device__ __forceinline__ void start(int const (&ahead)[stages + 1], Result& result) {
#pragma unroll
    for (int stage = 0; stage < stages; ++stage) {
      load_kv(k_ring_, k_, stage, ahead[stage]);
      if (stage + 1 < stages) load_kv(v_ring_, v_, stage, ahead[stage]);
    }
#pragma unroll
    for (int f = 0; f < fragments; ++f) result.out[f].clear();
    result.softmax.reset();
  }

  /// One copy group, empty past the last tile.
  __device__ __forceinline__ void load_kv(std::uint32_t ring, HeadView<T> const& head, int slot, int tile) {
    if (tile >= 0) load_tile<kv_tile, head_dim, threads>(ring + slot * kv_bytes, head, tile * kv_tile);
    cp_async_commit();
  }

  /// Logits to weights, and what was accumulated before to the new reference.
  template <SoftmaxReference how>
  __device__ __forceinline__ void weigh(Fragment<kv_tile> (&logits)[fragments], int tile,
                                        Result& result) const {
    int const valid_keys = k_.tokens - tile * kv_tile;
    if (valid_keys < kv_tile)
#pragma unroll
      for (int f = 0; f < fragments; ++f) mask_tail(logits[f], valid_keys);
    float rescale[fragments][2];
    result.softmax.template update<how>(logits, scale_log2_, rescale);
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) result.out[f].scale_row(r, rescale[f][r]);
  }

  std::uint32_t q_tile_, k_ring_, v_ring_;
  HeadView<T> q_, k_, v_;
  float scale_log2_;
};

}  // namespace sparge
