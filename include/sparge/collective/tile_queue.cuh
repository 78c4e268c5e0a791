#pragma once
/// The query tiles that a persistent thread block takes, and their mask rows.

#include <cstdint>

#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// The mask row of a query tile, where a tile is a mask block.
template <class Params>
__device__ __forceinline__ std::uint32_t const* row_of(Params const& params, int batch, int head, int tile) {
  std::int64_t const row = (std::int64_t{batch} * params.heads + head) * params.q_blocks + tile;
  return params.mask + row * params.row_words;
}

/// Tiles in head-major order, each to the first producer that asks. The index of a tile is asked for two tiles ahead and its
/// first mask words one tile ahead, so that neither is waited for.
template <class Params>
class TileQueue {
public:
  __device__ __forceinline__ TileQueue(Params const& params, int first, int producers)
      : params_(params), producers_(producers), index_(first) {
    request();
    prefetch_row();
  }

  __device__ __forceinline__ bool is_empty() const {
    return index_ >= static_cast<std::uint32_t>(params_.all_tiles);
  }
  __device__ __forceinline__ TilePosition position() const { return at_; }

  /// The mask row of position(), after which the queue moves on.
  __device__ __forceinline__ RowWalk take() {
    RowWalk const walk({row_}, params_.kv_blocks, word_);
    index_ = __shfl_sync(all_lanes, requested_, 0);
    request();
    prefetch_row();
    return walk;
  }

private:
  __device__ __forceinline__ void request() {
    if (lane_index() == 0) requested_ = producers_ + atomicAdd(params_.tile_counter, 1u);
  }

  __device__ __forceinline__ void prefetch_row() {
    if (is_empty()) return;
    at_ = head_major_tile(index_, params_.q_tiles, params_.heads);
    row_ = row_of(params_, at_.batch, at_.head, at_.tile);
    word_ = RowWords{row_}.load(0, params_.kv_blocks);
  }

  Params const& params_;
  std::uint32_t producers_, index_;
  std::uint32_t requested_ = 0;  ///< in lane 0
  TilePosition at_{0, 0, 0};
  std::uint32_t const* row_ = nullptr;
  std::uint32_t word_ = 0;
};

}  // namespace sparge
