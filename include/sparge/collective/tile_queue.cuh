#pragma once
/// The query tiles that a persistent thread block takes, and their mask rows.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/work_queue.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/schedule_rule.hpp"

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

/// Whether a producer's first tile may be the one of its own index, before the order is known.
enum class TileStart { in_order, before_order };

/// The next item is asked for and found while keys of the one before are loaded, in calls between which time goes by: its place in
/// the order, then itself and its first mask words. Not earlier: who has a long item would keep two more from those that have none.
template <class Params>
class TileQueue {
public:
  __device__ __forceinline__ TileQueue(Params const& params, int first, int producers, TileStart start)
      : params_(params), queue_(params.schedule, params.all_tiles, params.kv_blocks, first, producers) {
    if (start == TileStart::in_order) return;
    item_ = {static_cast<std::uint32_t>(first), 0, params.kv_blocks, -1};
    state_ = first < params.all_tiles && starts_first() ? State::before_order : State::unsettled;
    if (state_ == State::before_order) word_ = first_word(params_, item_);
  }

  /// False after a first tile that started before the order was known.
  __device__ __forceinline__ bool is_settled() const { return state_ != State::unsettled; }

  /// Once an item was taken and is being loaded.
  __device__ __forceinline__ void ask() {
    if (state_ != State::taken) return;
    queue_.ask();
    state_ = State::asked;
  }

  /// Some time after ask().
  __device__ __forceinline__ void find() {
    if (state_ != State::asked) return;
    item_ = queue_.find();
    if (!is_empty()) word_ = first_word(params_, item_);
    state_ = State::found;
  }

  /// Before is_empty(), item() and take(): all that has not been done. Waits for the order where it is needed and was not yet.
  __device__ __forceinline__ void settle() {
    if (!is_settled()) {
      wait_for_kernel_before();
      let_next_kernel_start();
      state_ = State::asked;
    }
    ask();
    find();
  }

  __device__ __forceinline__ bool is_empty() const { return item_.tile >= params_.all_tiles; }
  __device__ __forceinline__ WorkItem const& item() const { return item_; }

  /// The mask row of item(), which is taken.
  __device__ __forceinline__ RowWalk take() {
    state_ = state_ == State::before_order ? State::unsettled : State::taken;
    return walk_item(params_, item_, word_);
  }

private:
  enum class State {
    before_order,  ///< item_ is the first tile, which may start
    unsettled,     ///< there is no item yet but one that the order tells
    taken,         ///< nor one that was asked for
    asked,
    found
  };

  /// Of item_'s row. The ordering kernel comes to the same verdict.
  __device__ __forceinline__ bool starts_first() const {
    int kept = 0, sampled = 0;
#pragma unroll 1
    for (int word = lane_index(); word < params_.row_words; word += 32) {
      int const valid = params_.kv_blocks - 32 * word;
      std::uint32_t const bits = valid >= 32 ? ~0u : (1u << valid) - 1;
      kept += __popc(word_at(item_.tile, word) & bits);
#pragma unroll
      for (int i = 0; i < ScheduleRule::samples; ++i)
        sampled += __popc(word_at(ScheduleRule::sample(i, params_.all_tiles), word) & bits);
    }
    return ScheduleRule::starts_first(warp_sum(kept), warp_sum(sampled));
  }

  __device__ __forceinline__ std::uint32_t word_at(std::int64_t tile, int word) const {
    return params_.mask[tile * params_.row_words + word];
  }

  Params const& params_;
  WorkQueue queue_;
  WorkItem item_;
  std::uint32_t word_ = 0;
  State state_ = State::asked;
};

}  // namespace sparge
