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

/// The place of an item is asked for two items ahead and its first mask words one item ahead, so that neither is waited for.
template <class Params>
class TileQueue {
public:
  __device__ __forceinline__ TileQueue(Params const& params, int first, int producers, TileStart start)
      : params_(params), queue_(params.schedule, params.all_tiles, params.kv_blocks, first, producers) {
    if (start == TileStart::in_order) {
      move_on();
      return;
    }
    item_ = {static_cast<std::uint32_t>(first), 0, params.kv_blocks, -1};
    state_ = first < params.all_tiles && starts_first() ? State::before_order : State::unsettled;
    if (state_ == State::before_order) word_ = first_word(params_, item_);
  }

  /// False after a first tile that started before the order was known.
  __device__ __forceinline__ bool is_settled() const { return state_ != State::unsettled; }

  /// Before is_empty(), item() and take(): waits for the order where it is needed and was not yet.
  __device__ __forceinline__ void settle() {
    if (is_settled()) return;
    state_ = State::in_order;
    wait_for_kernel_before();
    let_next_kernel_start();
    move_on();
  }

  __device__ __forceinline__ bool is_empty() const { return item_.tile >= params_.all_tiles; }
  __device__ __forceinline__ WorkItem const& item() const { return item_; }

  /// The mask row of item(), after which the queue moves on.
  __device__ __forceinline__ RowWalk take() {
    RowWalk const walk = walk_item(params_, item_, word_);
    if (state_ == State::before_order)
      state_ = State::unsettled;
    else
      move_on();
    return walk;
  }

private:
  enum class State { before_order, unsettled, in_order };

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

  __device__ __forceinline__ void move_on() {
    item_ = queue_.next();
    if (!is_empty()) word_ = first_word(params_, item_);
  }

  Params const& params_;
  WorkQueue queue_;
  WorkItem item_;
  std::uint32_t word_ = 0;
  State state_ = State::in_order;
};

}  // namespace sparge
