#pragma once
/// The query tiles that a persistent thread block takes, and their mask rows.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/work_queue.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/global_word.cuh"
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

/// The next item is asked for and found while keys of the one before are loaded, in calls between which time goes by: its place in
/// the order, then itself and its first mask words. Not earlier: who has a long item would keep two more from those that have none.
/// Where the order is made while tiles are computed, a producer begins with tiles of which all know that they are its own.
template <class Params>
class TileQueue {
public:
  /// `first` of `producers` over the whole grid. Of the first `first_tiles` tiles it begins with `first`, `first + producers` .. where they may start
  /// before the order is known; 0: the order is known already.
  __device__ __forceinline__ TileQueue(Params const& params, int first, int producers,
                                       std::uint32_t first_tiles = 0)
      : params_(params),
        queue_(params.schedule, params.all_tiles, params.kv_blocks, first, producers),
        producers_(producers),
        first_tiles_(first_tiles) {
    if (first_tiles == 0) return;
    state_ = State::looking;
    item_ = {static_cast<std::uint32_t>(first), 0, params.kv_blocks, -1};
    if (item_.tile < first_tiles_) word_ = first_word(params_, item_);
  }

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

  /// Before is_empty(), item() and take(): all that has not been done. Waits for the order where it is needed and was not yet; false where
  /// it is not known and may not be waited for.
  __device__ __forceinline__ bool settle(bool may_wait) {
    if (state_ == State::looking) {
      while (item_.tile < first_tiles_ && !starts_first()) look_at_next();
      state_ = item_.tile < first_tiles_ ? State::before_order : State::unsettled;
    }
    if (state_ == State::unsettled) {
      while (load_acquiring(params_.schedule.header + Schedule::is_known) == 0) {
        if (!may_wait) return false;
        __nanosleep(100);
      }
      let_next_kernel_start();
      state_ = State::asked;
    }
    ask();
    find();
    return true;
  }

  __device__ __forceinline__ bool is_empty() const { return item_.tile >= params_.all_tiles; }
  __device__ __forceinline__ WorkItem const& item() const { return item_; }

  /// The mask row of item(), which is taken.
  __device__ __forceinline__ RowWalk take() {
    RowWalk const walk = walk_item(params_, item_, word_);
    if (state_ == State::before_order) {
      state_ = State::looking;
      look_at_next();
    } else {
      state_ = State::taken;
    }
    return walk;
  }

private:
  enum class State {
    looking,       ///< item_ is a tile that may start before the order, or past these
    before_order,  ///< it starts
    unsettled,     ///< there is no item yet but one that the order tells
    taken,         ///< nor one that was asked for
    asked,
    found
  };

  __device__ __forceinline__ void look_at_next() {
    item_.tile += producers_;
    if (item_.tile < first_tiles_) word_ = first_word(params_, item_);
  }

  /// Of item_'s row. Those who make the order come to the same verdict.
  __device__ __forceinline__ bool starts_first() {
    auto const kept = static_cast<std::uint32_t>(count_row(item_.tile));
    if (ScheduleRule::is_never_split(kept)) return true;
    if (sampled_ < 0) {
      sampled_ = 0;
#pragma unroll 1
      for (int i = 0; i < ScheduleRule::samples; ++i)
        sampled_ += count_row(ScheduleRule::sample(i, params_.all_tiles));
    }
    return ScheduleRule::starts_first(kept, static_cast<std::uint64_t>(sampled_));
  }

  __device__ __forceinline__ int count_row(std::int64_t tile) const {
    int kept = 0;
#pragma unroll 1
    for (int word = lane_index(); word < params_.row_words; word += 32)
      kept +=
          __popc(params_.mask[tile * params_.row_words + word] & valid_bits(32 * word, params_.kv_blocks));
    return warp_sum(kept);
  }

  Params const& params_;
  WorkQueue queue_;
  WorkItem item_;
  std::uint32_t word_ = 0, producers_, first_tiles_;
  int sampled_ = -1;  ///< kept blocks of the rows that stand for all; not yet known
  State state_ = State::asked;
};

}  // namespace sparge
