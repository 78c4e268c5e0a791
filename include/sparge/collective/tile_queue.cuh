#pragma once
/// The query tiles that a persistent thread block takes, and their mask rows.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/work_queue.cuh"

namespace sparge {

/// The walk of an item's mask row, where a tile is a mask block.
template <class Params>
__device__ __forceinline__ RowWalk walk_item(Params const& params, WorkItem const& item, std::uint32_t word) {
  return {row_words_of(params.mask, item.tile, params.row_words), item.first, item.end, word};
}

/// This lane's word of the walk's first chunk.
template <class Params>
__device__ __forceinline__ std::uint32_t first_word(Params const& params, WorkItem const& item) {
  return row_words_of(params.mask, item.tile, params.row_words).load(RowWalk::chunk_of(item.first), item.end);
}

/// The place of an item is asked for two items ahead and its first mask words one item ahead, so that neither is waited for.
template <class Params>
class TileQueue {
public:
  __device__ __forceinline__ TileQueue(Params const& params, int first, int producers)
      : params_(params), queue_(params.schedule, params.all_tiles, params.kv_blocks, first, producers) {
    move_on();
  }

  __device__ __forceinline__ bool is_empty() const { return item_.tile >= params_.all_tiles; }
  __device__ __forceinline__ WorkItem const& item() const { return item_; }

  /// The mask row of item(), after which the queue moves on.
  __device__ __forceinline__ RowWalk take() {
    RowWalk const walk = walk_item(params_, item_, word_);
    move_on();
    return walk;
  }

private:
  __device__ __forceinline__ void move_on() {
    item_ = queue_.next();
    if (!is_empty()) word_ = first_word(params_, item_);
  }

  Params const& params_;
  WorkQueue queue_;
  WorkItem item_;
  std::uint32_t word_ = 0;
};

}  // namespace sparge
