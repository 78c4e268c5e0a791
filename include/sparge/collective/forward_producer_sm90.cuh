#pragma once
/// The producer warp of the sm90a forward kernel: decides which tile is next, walks its mask row, has Q, K and V copied.

#include <cstdint>

#include "sparge/collective/clear_rows.cuh"
#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/key_blocks_sm90.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/collective/tile_queue.cuh"
#include "sparge/device/local_memory.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/forward_params.hpp"

namespace sparge {

struct ForwardTensors {
  CUtensorMap q, k, v, out;
};

template <ForwardConfig config, class T>
class ForwardProducerSm90 {
public:
  using Params = ForwardParams<T>;
  using Pipe = ForwardPipe<config>;

  __device__ __forceinline__ ForwardProducerSm90(Params const& params, ForwardTensors const& tensors,
                                                 Pipe pipe)
      : params_(params), tensors_(tensors), pipe_(pipe) {}

  /// By one warp. `index` of `producers` over the whole grid.
  ///
  /// Consumers finish tiles in the order in which they were handed out. A tile that they ask for once more goes out as soon as
  /// its verdict is read: before its slot is needed for another, and when there are no new tiles. Where this warp has registers
  /// for it, a tile is chosen and its Q asked for while keys of the one before are still to be asked for.
  __device__ __forceinline__ void run(int index, int producers) {
    TileQueue<Params> queue(params_, index, producers, params_.first_tiles);
    Item item;
    if constexpr (chooses_early) {
      Item next;
      for (bool has_item = false; has_item || choose(queue, item, true);) {
        has_item = request_keys(item, [&](int step) { return prepare(queue, next, step); });
        if (has_item) item = next;
      }
    } else {
      while (choose(queue, item, true)) {
        queue.ask();
        queue.find();
        keep_in_memory(queue);  // 32 registers
        request_keys(item, [](int) { return false; });
      }
    }
    note(ForwardWork::end());
  }

private:
  using Keys = KeyBlocks<Pipe>;
  static constexpr bool chooses_early = config.teams() == 1;
  /// Not 0: consumers return the slot that the next Q needs after the second K of this tile, or after its last.
  static constexpr int early_step = 2;

  /// A tile, and what is left of its mask row.
  struct Item {
    ForwardTile at{0, 0, 0, -1};
    RowWalk walk{{nullptr}, 0, 0u};
    int block = -1;  ///< the next; -1 after the last
  };

  // ---- What comes next -------------------------------------------------------------------------------------------------

  /// After a step of the item before, each of which takes longer than what was asked for. Returns whether `next` was chosen.
  __device__ __forceinline__ bool prepare(TileQueue<Params>& queue, Item& next, int step) {
    if (step == 0) queue.ask();
    if (step == 1) queue.find();
    return step == early_step && choose(queue, next, false);
  }

  /// The next tile, whose Q is asked for. False where there is none, or, unless `may_wait`, where only a verdict or the order of tiles can
  /// tell: nobody waits for the order while keys of the first tile are still to be asked for.
  __device__ __forceinline__ bool choose(TileQueue<Params>& queue, Item& item, bool may_wait) {
    while (true) {
      if (!queue.settle(may_wait)) return false;
      if (queue.is_empty() && (!may_wait || unjudged_ == 0)) return false;
      int redo = 0;
      if (queue.is_empty() || unjudged_ == Pipe::verdicts) {
        // Consumers hold the last tile back until they know what follows.
        if (unjudged_ == 1) note(ForwardWork::pause());
        redo = read_verdict(item.at);
        if (redo == 0) continue;
        WorkItem const again = item_of(item.at);
        item.walk = walk_item(params_, again, first_word(params_, again));
        item.block = item.walk.next();
      } else {
        TilePosition const at = head_major_tile(queue.item().tile, params_.q_tiles, params_.heads);
        item.at = {at.batch, at.head, at.tile, queue.item().slot};
        item.walk = queue.take();
        item.block = item.walk.next();
        if (item.block < 0) {
          queue.ask();
          write_empty(at);
          continue;
        }
      }
      request_q(item.at, redo);
      return true;
    }
  }

  /// What was handed out as `at`.
  __device__ __forceinline__ WorkItem item_of(ForwardTile const& at) const {
    if (at.slot >= 0) return params_.schedule.items[at.slot];
    std::uint32_t const head = at.batch * params_.heads + at.head;
    return {head * params_.q_tiles + at.tile, 0, params_.kv_blocks, -1};
  }

  /// Waits until the consumers are done with the tile that was handed out longest ago. Returns the warps that ask for it
  /// once more.
  __device__ __forceinline__ int read_verdict(ForwardTile& at) {
    int const slot = judged_at_.slot();
    pipe_.judged(slot).wait(judged_at_.parity());
    judged_at_.advance();
    --unjudged_;
    at = pipe_.read_tile(slot);
    int const redo = uniform(pipe_.read_redo(slot));
    __syncwarp();
    if (elect_lane()) pipe_.clear_redo(slot);
    __syncwarp();
    return redo;
  }

  /// A note without a tile.
  __device__ __forceinline__ void note(ForwardWork work) {
    int const slot = q_at_.slot();
    pipe_.q_empty(slot).wait(q_at_.parity() ^ 1);
    if (elect_lane()) {
      pipe_.note_work(slot, work);
      pipe_.q_full(slot).arrive();
    }
    __syncwarp();
    q_at_.advance();
  }

  // ---- Copies ----------------------------------------------------------------------------------------------------------

  __device__ __forceinline__ void request_q(ForwardTile const& at, int redo) {
    int const slot = q_at_.slot();
    pipe_.q_empty(slot).wait(q_at_.parity() ^ 1);
    int const tile = uniform(at.tile), head = uniform(at.head), batch = uniform(at.batch);
    if (elect_lane()) {
      Mbarrier const full = pipe_.q_full(slot);
      pipe_.note_work(slot, ForwardWork::tile(slot, verdict_at_.slot(), redo));
      pipe_.note_tile(verdict_at_.slot(), at);
      full.arrive_expecting(Pipe::q_bytes);
      load_panels<Pipe::panels>(pipe_.q(slot), Pipe::q_panel_bytes, tensors_.q,
                                {0, tile * config.q_tile, head, batch}, full);
    }
    __syncwarp();
    q_at_.advance();
    verdict_at_.advance();
    ++unjudged_;
  }

  /// Has the keys of the item's mask row copied. `choose_next(step)` is called after each step but the last. Returns whether one
  /// of the calls did.
  template <class ChooseNext>
  __device__ __forceinline__ bool request_keys(Item& item, ChooseNext choose_next) {
    BoxOrigin const head{0, 0, item.at.head / params_.heads_per_kv_head, item.at.batch};
    bool has_next = false;
    Keys keys = gather(item);
    for (int step = 0;; ++step) {
      bool const is_last = item.block < 0;
      request_k(keys, head, {keys.count_keys(params_.kv_tokens), is_last});
      Keys const before = keys;
      if (!is_last) keys = gather(item);
      request_v(before, head);
      if (is_last) return has_next;
      if (choose_next(step)) has_next = true;
    }
  }

  /// The item's next tile of keys.
  __device__ __forceinline__ Keys gather(Item& item) const {
    return Keys::gather(item.walk, item.block, params_.kv_blocks);
  }

  __device__ __forceinline__ void request_k(Keys const& keys, BoxOrigin head, KeyStep const& step) {
    int const slot = k_at_.slot();
    pipe_.kv_empty(slot).wait(k_at_.parity() ^ 1);
    Mbarrier const full = pipe_.kv_full(slot);
    keys.load(pipe_.kv(slot), tensors_.k, head, full, [&] { pipe_.note_step(slot, step); });
    k_at_.advance();
  }

  __device__ __forceinline__ void request_v(Keys const& keys, BoxOrigin head) {
    int const slot = v_at_.slot();
    pipe_.kv_empty(slot).wait(v_at_.parity() ^ 1);
    Mbarrier const full = pipe_.kv_full(slot);
    keys.load(pipe_.kv(slot), tensors_.v, head, full, [] {});
    v_at_.advance();
  }

  /// Rows that keep no key never reach the consumers.
  __device__ __forceinline__ void write_empty(TilePosition const& at) {
    int const first = at.tile * config.q_tile;
    int const rows = min(config.q_tile, params_.q_tokens - first);
    clear_rows<config.head_dim>(params_.out, at, first, rows);
    if (params_.lse == nullptr) return;
    float* const lse =
        params_.lse + (std::int64_t{at.batch} * params_.heads + at.head) * params_.q_tokens + first;
#pragma unroll 1
    for (int row = lane_index(); row < rows; row += 32) lse[row] = -infinity();
  }

  Params const& params_;
  ForwardTensors const& tensors_;
  Pipe pipe_;
  typename Pipe::QPosition q_at_;
  typename Pipe::KPosition k_at_;
  typename Pipe::VPosition v_at_;
  typename Pipe::VerdictPosition verdict_at_, judged_at_;
  int unjudged_ = 0;  ///< tiles that were handed out and have no verdict yet
};

}  // namespace sparge
