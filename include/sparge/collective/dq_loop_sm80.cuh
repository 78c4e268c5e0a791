#pragma once
/// The main loop of the gradient of Q with cp.async and mma.sync: dQ += dS K over the kept key tiles of a row.

#include <cstdint>

#include "sparge/collective/load_tile.cuh"
#include "sparge/collective/multiply_sm80.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_ring.cuh"
#include "sparge/device/element_mask.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/plan/backward_config.hpp"

namespace sparge {

/// Each warp owns `q_tile / warps` query rows, as one or more fragments of 16, and every key of a tile.
template <BackwardConfig config, class T>
class DqLoopSm80 {
public:
  static constexpr int head_dim = config.head_dim, q_tile = config.q_tile, kv_tile = config.kv_tile;
  static constexpr int threads = config.threads();
  static constexpr int fragments = q_tile / config.warps / 16;
  static constexpr int warp_rows = 16 * fragments;
  using Result = Fragment<head_dim>[fragments];

  __device__ __forceinline__ DqLoopSm80(unsigned char* smem, HeadView<T> k, HeadView<T> v, float scale)
      : q_tile_(shared_address(smem)), k_(k), v_(v), scale_(scale) {}

  /// Requests the block's rows of Q and dO, from token `q_first` on: before the mask is read, so that the two waits overlap.
  __device__ __forceinline__ void request_rows(HeadView<T> const& q, HeadView<T> const& grad_out,
                                               int q_first) {
    load_tile<q_tile, head_dim, threads>(q_tile_, q, q_first);
    load_tile<q_tile, head_dim, threads>(q_tile_ + q_bytes, grad_out, q_first);
  }

  /// `lse` and `delta` are those of the lane's rows; lse may end in another form, though +inf stays. On return no copy is in
  /// flight and no warp reads shared memory.
  __device__ __forceinline__ void run(PlacedTileWalk const& walk, RowValues<fragments>& lse,
                                      RowValues<fragments> const& delta, Result& grad_q) {
    if (lse.hold_lse() == LseForm::steady)
      add_tiles<LseForm::steady>(walk, lse, delta, grad_q);
    else
      add_tiles<LseForm::exact>(walk, lse, delta, grad_q);
  }

private:
  using Tile = SwizzledTile<head_dim>;
  static constexpr std::uint32_t q_bytes = q_tile * Tile::row_bytes;
  static constexpr std::uint32_t kv_bytes = kv_tile * Tile::row_bytes;

  __device__ __forceinline__ std::uint32_t k_tile(int slot) const {
    return q_tile_ + 2 * q_bytes + slot * 2 * kv_bytes;
  }

  __device__ __forceinline__ void load_kv(int slot, int tile) {
    load_tile<kv_tile, head_dim, threads>(k_tile(slot), k_, tile * kv_tile);
    load_tile<kv_tile, head_dim, threads>(k_tile(slot) + kv_bytes, v_, tile * kv_tile);
  }

  /// A loop for each form: one that decided at every tile would hold both in registers.
  template <LseForm form>
  __device__ __forceinline__ void add_tiles(PlacedTileWalk walk, RowValues<fragments> const& lse,
                                            RowValues<fragments> const& delta, Result& grad_q) {
    auto const request = [this](int slot, TilePlace place) { load_kv(slot, place.tile); };
    TileRing<TilePlace, config.stages> ring;
    ring.start(walk, request);
#pragma unroll
    for (int f = 0; f < fragments; ++f) grad_q[f].clear();
    while (true) {
      TilePlace const place = ring.advance(walk, request);
      if (!place.exists()) break;
      add_tile<form>(ring.slot(), place.tile, lse, delta, grad_q);
    }
  }

  template <LseForm form>
  __device__ __forceinline__ void add_tile(int slot, int tile, RowValues<fragments> const& lse,
                                           RowValues<fragments> const& delta, Result& grad_q) const {
    int const first_row = warp_index() * warp_rows;
    Fragment<kv_tile> p[fragments], ds[fragments];
    multiply_rows<T, head_dim>(p, q_tile_, first_row, k_tile(slot), 0);
    multiply_rows<T, head_dim>(ds, q_tile_ + q_bytes, first_row, k_tile(slot) + kv_bytes, 0);
    int const valid_keys = k_.tokens - tile * kv_tile;
#pragma unroll
    for (int f = 0; f < fragments; ++f) {
      differentiate_rows<form>(p[f], ds[f], lse.of[f], delta.of[f], scale_);
      if (valid_keys < kv_tile) clear_tail(ds[f], valid_keys);
    }
    accumulate_product<T, kv_tile, head_dim>(grad_q, operand_of<T>(ds), k_tile(slot), 0);
  }

  std::uint32_t q_tile_;
  HeadView<T> k_, v_;
  float scale_;
};

}  // namespace sparge
