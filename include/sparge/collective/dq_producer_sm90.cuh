#pragma once
/// The producer warp of the sm90a kernel of dQ: decides which tile is next, walks its mask row, has Q, dO, K and V copied, and
/// brings lse and delta.

#include <cstdint>

#include "sparge/collective/clear_rows.cuh"
#include "sparge/collective/dq_pipe_sm90.cuh"
#include "sparge/collective/key_blocks_sm90.cuh"
#include "sparge/collective/row_walk.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/collective/tile_queue.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/backward_params.hpp"

namespace sparge {

struct DqTensors {
  CUtensorMap q, k, v, grad_out, grad_q;
};

template <BackwardConfig config, class T>
class DqProducerSm90 {
public:
  using Params = BackwardParams<T>;
  using Pipe = DqPipe<config>;

  __device__ __forceinline__ DqProducerSm90(Params const& params, DqTensors const& tensors, Pipe pipe)
      : params_(params), tensors_(tensors), pipe_(pipe) {}

  /// By one warp. `index` of `producers` over the whole grid.
  __device__ __forceinline__ void run(int index, int producers) {
    TileQueue<Params> queue(params_, index, producers);
    for (queue.settle(true); !queue.is_empty(); queue.settle(true)) {
      TilePosition const at = head_major_tile(queue.item().tile, params_.q_tiles, params_.heads);
      int const partial = queue.item().slot;
      RowWalk walk = queue.take();
      queue.ask();
      int const block = walk.next();
      if (block >= 0)
        hand_out(at, partial, walk, block);
      else
        write_empty(at);
    }
    note_end();
  }

private:
  using Keys = KeyBlocks<Pipe>;
  static_assert(config.q_tile == 128, "a tile is a mask block");

  /// The rows' dO is asked for after their first keys: it is needed later, and its slot is free later.
  __device__ __forceinline__ void hand_out(TilePosition const& at, int partial, RowWalk& walk, int block) {
    request_q(at, partial);
    BoxOrigin const head{0, 0, at.head / params_.heads_per_kv_head, at.batch};
    bool is_first = true;
    while (block >= 0) {
      Keys const keys = Keys::gather(walk, block, params_.kv_blocks);
      request_k(keys, block < 0, head);
      if (is_first) request_grad_out(at);
      request_v(keys, head);
      is_first = false;
    }
  }

  __device__ __forceinline__ void request_q(TilePosition const& at, int partial) {
    std::int64_t const row =
        (std::int64_t{at.batch} * params_.heads + at.head) * params_.padded_rows + at.tile * config.q_tile;
    float4 const lse = reinterpret_cast<float4 const*>(params_.row_lse + row)[lane_index()];
    float4 const delta = reinterpret_cast<float4 const*>(params_.delta + row)[lane_index()];
    pipe_.q_empty().wait(q_at_.parity() ^ 1);
    store_shared(pipe_.lse() + 16 * lane_index(), lse);
    store_shared(pipe_.delta() + 16 * lane_index(), delta);
    Mbarrier const full = pipe_.q_full();
    if (elect_lane()) {
      pipe_.tile_note(tile_ % Pipe::tiles).write(at, partial);
      full.arrive_expecting(Pipe::q_bytes);
    } else {
      full.arrive();  // every lane for the values that it brought
    }
    load_rows(pipe_.q(), tensors_.q, at, full);
    q_at_.advance();
    ++tile_;
  }

  __device__ __forceinline__ void request_grad_out(TilePosition const& at) {
    pipe_.grad_out_empty().wait(grad_out_at_.parity() ^ 1);
    Mbarrier const full = pipe_.grad_out_full();
    if (elect_lane()) full.arrive_expecting(Pipe::q_bytes);
    load_rows(pipe_.grad_out(), tensors_.grad_out, at, full);
    grad_out_at_.advance();
  }

  static __device__ __forceinline__ void load_rows(std::uint32_t tile, CUtensorMap const& tensor,
                                                   TilePosition const& at, Mbarrier full) {
    int const token = uniform(at.tile) * config.q_tile, head = uniform(at.head), batch = uniform(at.batch);
    if (elect_lane())
      load_panels<Pipe::panels>(tile, Pipe::q_panel_bytes, tensor, {0, token, head, batch}, full);
    __syncwarp();
  }

  __device__ __forceinline__ void request_k(Keys const& keys, bool is_last, BoxOrigin head) {
    int const slot = k_at_.slot();
    int const valid_keys = keys.count_keys(params_.kv_tokens);
    pipe_.k_empty(slot).wait(k_at_.parity() ^ 1);
    keys.load(pipe_.k(slot), tensors_.k, head, pipe_.k_full(slot), [&] {
      pipe_.note_step(slot, {valid_keys, is_last});
    });
    k_at_.advance();
  }

  __device__ __forceinline__ void request_v(Keys const& keys, BoxOrigin head) {
    int const slot = v_at_.slot();
    pipe_.v_empty(slot).wait(v_at_.parity() ^ 1);
    keys.load(pipe_.v(slot), tensors_.v, head, pipe_.v_full(slot), [] {});
    v_at_.advance();
  }

  __device__ __forceinline__ void note_end() {
    pipe_.q_empty().wait(q_at_.parity() ^ 1);
    if (elect_lane()) pipe_.tile_note(tile_ % Pipe::tiles).write_end();
    pipe_.q_full().arrive();
  }

  /// Rows that keep no key never reach the consumers.
  __device__ __forceinline__ void write_empty(TilePosition const& at) {
    int const first = at.tile * config.q_tile;
    clear_rows<config.head_dim>(params_.grad_q, at, first, min(config.q_tile, params_.q_tokens - first));
  }

  Params const& params_;
  DqTensors const& tensors_;
  Pipe pipe_;
  typename Pipe::RowPlace q_at_, grad_out_at_;
  typename Pipe::KvPlace k_at_, v_at_;
  int tile_ = 0;  ///< how many were handed out
};

}  // namespace sparge
