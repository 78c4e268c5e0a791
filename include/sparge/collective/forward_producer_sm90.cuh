#pragma once
/// The producer warp of the sm90a forward kernel: decides which tile is next, walks its mask row, has Q, K and V copied.

#include <cstdint>

#include "sparge/collective/forward_pipe_sm90.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/forward_params.hpp"

namespace sparge {

struct ForwardTensors {
  CUtensorMap q, k, v, out;
};

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
  __device__ __forceinline__ TilePosition position() const {
    return head_major_tile(index_, params_.q_tiles, params_.heads);
  }

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
    TilePosition const at = position();
    row_ = row_of(params_, at.batch, at.head, at.tile);
    word_ = RowWords{row_}.load(0, params_.kv_blocks);
  }

  Params const& params_;
  std::uint32_t producers_, index_;
  std::uint32_t requested_ = 0;  ///< in lane 0
  std::uint32_t const* row_ = nullptr;
  std::uint32_t word_ = 0;
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
  /// its verdict is read: before its slot is needed for another, and when there are no new tiles.
  __device__ __forceinline__ void run(int index, int producers) {
    TileQueue<Params> queue(params_, index, producers);
    int unjudged = 0;
    while (!queue.is_empty() || unjudged > 0) {
      if (queue.is_empty() || unjudged == Pipe::verdicts) {
        // Consumers hold the last tile back until they know what follows.
        if (unjudged == 1) note(ForwardWork::pause());
        ForwardTile at;
        int const redo = read_verdict(at);
        --unjudged;
        if (redo == 0) continue;
        RowWalk walk({row_of(params_, at.batch, at.head, at.tile)}, params_.kv_blocks);
        int const block = walk.next();
        hand_out(at, redo, walk, block);
        ++unjudged;
      } else {
        TilePosition const at = queue.position();
        RowWalk walk = queue.take();
        int const block = walk.next();
        if (block < 0) {
          write_empty(at);
          continue;
        }
        hand_out({at.batch, at.head, at.tile}, 0, walk, block);
        ++unjudged;
      }
    }
    note(ForwardWork::end());
  }

private:
  static constexpr int block_tokens = 64;
  static constexpr int tile_blocks = config.kv_tile / block_tokens;
  static constexpr int block_panel_bytes = block_tokens * Pipe::panel_row_bytes;

  static __device__ __forceinline__ bool is_leader() { return lane_index() == 0; }

  /// A note without a tile.
  __device__ __forceinline__ void note(ForwardWork work) {
    if (is_leader()) {
      pipe_.q_empty(q_at_.slot()).wait(q_at_.parity() ^ 1);
      pipe_.note_work(q_at_.slot(), work);
      pipe_.q_full(q_at_.slot()).arrive();
    }
    q_at_.advance();
  }

  /// Waits until the consumers are done with the tile that was handed out longest ago. Returns the warps that ask for it
  /// once more.
  __device__ __forceinline__ int read_verdict(ForwardTile& at) {
    int const slot = judged_at_.slot();
    pipe_.judged(slot).wait(judged_at_.parity());
    judged_at_.advance();
    at = pipe_.read_tile(slot);
    int const redo = pipe_.read_redo(slot);
    __syncwarp();
    if (is_leader()) pipe_.clear_redo(slot);
    return redo;
  }

  /// Has the tile's rows copied, and the keys of its mask row, whose first block is `block`.
  __device__ __forceinline__ void hand_out(ForwardTile const& at, int redo, RowWalk& walk, int block) {
    request_q(at, redo);
    int const kv_head = at.head / params_.heads_per_kv_head;
    while (block >= 0) {
      int blocks[tile_blocks];
      int count = 0;
#pragma unroll
      for (int i = 0; i < tile_blocks; ++i) {
        // Past the last block: outside the tensor, which reads as zeros.
        blocks[i] = block >= 0 ? block : params_.kv_blocks;
        count += block >= 0;
        if (block >= 0) block = walk.next();
      }
      request_kv(blocks, count, block < 0, {0, 0, kv_head, at.batch});
    }
  }

  __device__ __forceinline__ void request_q(ForwardTile const& at, int redo) {
    if (is_leader()) {
      int const slot = q_at_.slot();
      Mbarrier const full = pipe_.q_full(slot);
      pipe_.q_empty(slot).wait(q_at_.parity() ^ 1);
      pipe_.note_work(slot, ForwardWork::tile(verdict_at_.slot(), redo));
      pipe_.note_tile(verdict_at_.slot(), at);
      full.arrive_expecting(Pipe::q_bytes);
#pragma unroll
      for (int panel = 0; panel < Pipe::panels; ++panel)
        load_box(pipe_.q(slot) + panel * Pipe::q_panel_bytes, tensors_.q,
                 {panel * 64, at.tile * config.q_tile, at.head, at.batch}, full);
    }
    q_at_.advance();
    verdict_at_.advance();
  }

  __device__ __forceinline__ void request_kv(int const (&blocks)[tile_blocks], int count, bool is_last,
                                             BoxOrigin head) {
    if (is_leader()) {
      int const slot = kv_at_.slot();
      int const before_last = (count - 1) * block_tokens;
      int last_block = blocks[0];
#pragma unroll
      for (int i = 1; i < tile_blocks; ++i) last_block = i < count ? blocks[i] : last_block;
      int const valid_keys = before_last + min(block_tokens, params_.kv_tokens - last_block * block_tokens);
      pipe_.k_empty(slot).wait(kv_at_.parity() ^ 1);
      pipe_.note_step(slot, {valid_keys, is_last});
      load_blocks(pipe_.k(slot), tensors_.k, blocks, head, pipe_.k_full(slot));
      pipe_.v_empty(slot).wait(kv_at_.parity() ^ 1);
      load_blocks(pipe_.v(slot), tensors_.v, blocks, head, pipe_.v_full(slot));
    }
    kv_at_.advance();
  }

  static __device__ __forceinline__ void load_blocks(std::uint32_t tile, CUtensorMap const& tensor,
                                                     int const (&blocks)[tile_blocks], BoxOrigin at,
                                                     Mbarrier full) {
    full.arrive_expecting(Pipe::kv_bytes);
#pragma unroll
    for (int i = 0; i < tile_blocks; ++i)
#pragma unroll
      for (int panel = 0; panel < Pipe::panels; ++panel)
        load_box(tile + panel * Pipe::kv_panel_bytes + i * block_panel_bytes, tensor,
                 {panel * 64, blocks[i] * block_tokens, at.head, at.batch}, full);
  }

  /// Rows that keep no key never reach the consumers.
  __device__ __forceinline__ void write_empty(TilePosition const& at) {
    int const first = at.tile * config.q_tile;
    int const rows = min(config.q_tile, params_.q_tokens - first);
    constexpr int lanes_a_row = config.head_dim / 8;
    TensorView<T> const& out = params_.out;
    T* const rows_of_tile =
        out.data + at.batch * out.stride[0] + at.head * out.stride[1] + first * out.stride[2];
    for (int row = lane_index() / lanes_a_row; row < rows; row += 32 / lanes_a_row)
      *reinterpret_cast<uint4*>(rows_of_tile + row * out.stride[2] + lane_index() % lanes_a_row * 8) =
          make_uint4(0, 0, 0, 0);
    if (params_.lse == nullptr) return;
    float* const lse =
        params_.lse + (std::int64_t{at.batch} * params_.heads + at.head) * params_.q_tokens + first;
    for (int row = lane_index(); row < rows; row += 32) lse[row] = -infinity();
  }

  Params const& params_;
  ForwardTensors const& tensors_;
  Pipe pipe_;
  typename Pipe::QPosition q_at_;
  typename Pipe::KvPosition kv_at_;
  typename Pipe::VerdictPosition verdict_at_, judged_at_;
};

}  // namespace sparge
