#pragma once
/// The producer warp of the sm90a kernel of dK and dV: decides which key tile is next, walks its column of the mask, has K, V, Q
/// and dO copied, and brings lse and delta.

#include <cstdint>

#include "sparge/collective/column_walk.cuh"
#include "sparge/collective/dkdv_pipe_sm90.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/backward_params.hpp"

namespace sparge {

struct DkdvTensors {
  CUtensorMap q, k, v, grad_out, grad_k, grad_v;
};

template <BackwardConfig config, class T, class Pipe>
class DkdvProducerSm90 {
public:
  using Params = BackwardParams<T>;

  __device__ __forceinline__ DkdvProducerSm90(Params const& params, DkdvTensors const& tensors, Pipe pipe)
      : params_(params), tensors_(tensors), pipe_(pipe) {}

  /// By one warp. `index` of `producers` over the whole grid. The index of a tile is asked for one tile ahead.
  __device__ __forceinline__ void run(int index, int producers) {
    auto tile = static_cast<std::uint32_t>(index);
    while (tile < params_.all_tiles) {
      std::uint32_t requested = 0;
      if (is_leader()) requested = producers + atomicAdd(params_.tile_counter, 1u);
      TilePosition const at = head_major_tile(tile, params_.kv_tiles, params_.kv_heads);
      GroupWalk walk = walk_column(at);
      TilePlace const place = walk.next();
      if (place.exists())
        hand_out(at, walk, place);
      else
        write_empty(at);
      tile = __shfl_sync(all_lanes, requested, 0);
    }
    note_end();
  }

private:
  static_assert(config.q_tile == 128 && config.kv_tile == 64, "a tile is a mask block");

  static __device__ __forceinline__ bool is_leader() { return lane_index() == 0; }

  /// Of the group's first head, among those of all batch items.
  __device__ __forceinline__ std::int64_t first_head(TilePosition const& at) const {
    return std::int64_t{at.batch} * params_.heads + at.head * params_.heads_per_kv_head;
  }

  __device__ __forceinline__ GroupWalk walk_column(TilePosition const& at) const {
    std::int64_t const head_words = std::int64_t{params_.q_blocks} * params_.row_words;
    ColumnWords const words{params_.mask + first_head(at) * head_words + at.tile / 32, params_.row_words,
                            at.tile % 32};
    return {words, head_words, params_.heads_per_kv_head, params_.q_blocks, 1, params_.q_blocks};
  }

  __device__ __forceinline__ void hand_out(TilePosition const& at, GroupWalk& walk, TilePlace place) {
    request_keys(at);
    while (place.exists()) {
      TilePlace const next = walk.next();
      request_queries(at, place, !next.exists());
      place = next;
    }
  }

  __device__ __forceinline__ void request_keys(TilePosition const& at) {
    if (is_leader()) {
      int const slot = kv_at_.slot();
      Mbarrier const full = pipe_.kv_full(slot);
      pipe_.kv_empty(slot).wait(kv_at_.parity() ^ 1);
      pipe_.note_key_tile(key_at_.slot(), {at.batch, at.head, at.tile});
      full.arrive_expecting(2 * Pipe::kv_bytes);
#pragma unroll
      for (int panel = 0; panel < Pipe::panels; ++panel) {
        BoxOrigin const origin{panel * 64, at.tile * config.kv_tile, at.head, at.batch};
        load_box(pipe_.k(slot) + panel * Pipe::kv_panel_bytes, tensors_.k, origin, full);
        load_box(pipe_.v(slot) + panel * Pipe::kv_panel_bytes, tensors_.v, origin, full);
      }
    }
    kv_at_.advance();
    key_at_.advance();
  }

  __device__ __forceinline__ void note_end() {
    if (!is_leader()) return;
    int const slot = kv_at_.slot();
    pipe_.kv_empty(slot).wait(kv_at_.parity() ^ 1);
    pipe_.note_key_tile(key_at_.slot(), {0, 0, -1});
    pipe_.kv_full(slot).arrive();
  }

  /// lse and delta of this lane's four rows of a tile.
  struct RowChunk {
    float4 lse, delta;
  };

  __device__ __forceinline__ RowChunk load_rows(TilePosition const& at, TilePlace place) const {
    std::int64_t const row = (first_head(at) + place.head) * params_.padded_rows + place.tile * config.q_tile;
    return {reinterpret_cast<float4 const*>(params_.row_lse + row)[lane_index()],
            reinterpret_cast<float4 const*>(params_.delta + row)[lane_index()]};
  }

  /// Rows are loaded first: the ring is full most of the time, and then the wait for a slot hides their latency.
  __device__ __forceinline__ void request_queries(TilePosition const& at, TilePlace place, bool is_last) {
    RowChunk rows = load_rows(at, place);
    float const largest =
        fmaxf(fmaxf(fabsf(rows.lse.x), fabsf(rows.lse.y)), fmaxf(fabsf(rows.lse.z), fabsf(rows.lse.w)));
    bool const is_exact = !__all_sync(all_lanes, largest <= steady_lse);
    if (!is_exact) {
      rows.lse = {hold<LseForm::steady>(rows.lse.x), hold<LseForm::steady>(rows.lse.y),
                  hold<LseForm::steady>(rows.lse.z), hold<LseForm::steady>(rows.lse.w)};
    }
    BoxOrigin const origin{0, place.tile * config.q_tile, at.head * params_.heads_per_kv_head + place.head,
                           at.batch};
    request_tile(pipe_.queries(), q_at_, tensors_.q, origin, rows.lse, {is_last, is_exact});
    request_tile(pipe_.grad_outs(), grad_out_at_, tensors_.grad_out, origin, rows.delta, {is_last, is_exact});
  }

  template <class Ring>
  __device__ __forceinline__ void request_tile(Ring ring, typename Ring::Place& place,
                                               CUtensorMap const& tensor, BoxOrigin origin, float4 values,
                                               DkdvStep const& step) {
    int const slot = place.slot();
    ring.empty(slot).wait(place.parity() ^ 1);
    store_shared(ring.values(slot) + 16 * lane_index(), values);
    __syncwarp();
    if (is_leader()) {
      Mbarrier const full = ring.full(slot);
      ring.note_step(slot, step);
      full.arrive_expecting(Ring::tile_bytes);
#pragma unroll
      for (int panel = 0; panel < Ring::panels; ++panel)
        load_box(ring.tile(slot) + panel * Ring::panel_bytes, tensor,
                 {panel * 64, origin.token, origin.head, origin.batch}, full);
    }
    __syncwarp();
    place.advance();
  }

  /// Keys that no query keeps never reach the consumers.
  __device__ __forceinline__ void write_empty(TilePosition const& at) {
    clear_rows(params_.grad_k, at);
    clear_rows(params_.grad_v, at);
  }

  __device__ __forceinline__ void clear_rows(TensorView<T> const& view, TilePosition const& at) {
    int const first = at.tile * config.kv_tile;
    int const rows = min(config.kv_tile, params_.kv_tokens - first);
    constexpr int lanes_a_row = config.head_dim / 8;
    T* const tile = view.data + at.batch * view.stride[0] + at.head * view.stride[1] + first * view.stride[2];
    for (int row = lane_index() / lanes_a_row; row < rows; row += 32 / lanes_a_row)
      *reinterpret_cast<uint4*>(tile + row * view.stride[2] + lane_index() % lanes_a_row * 8) =
          make_uint4(0, 0, 0, 0);
  }

  Params const& params_;
  DkdvTensors const& tensors_;
  Pipe pipe_;
  typename Pipe::Queries::Place q_at_;
  typename Pipe::GradOuts::Place grad_out_at_;
  RingPosition<Pipe::kv_slots> kv_at_;
  typename Pipe::KeyPlace key_at_;
};

}  // namespace sparge
