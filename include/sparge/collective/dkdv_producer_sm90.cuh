#pragma once
/// The producer warp of the sm90a kernel of dK and dV: decides which key tile is next, walks its column of the mask, has K, V, Q
/// and dO copied, and brings lse and delta.

#include <cstdint>

#include "sparge/collective/clear_rows.cuh"
#include "sparge/collective/dkdv_pipe_sm90.cuh"
#include "sparge/collective/line_words.cuh"
#include "sparge/collective/probability_grad.cuh"
#include "sparge/collective/tile_order.cuh"
#include "sparge/collective/work_queue.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/plan/backward_params.hpp"

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

  /// By one warp. `index` of `producers` over the whole grid.
  __device__ __forceinline__ void run(int index, int producers) {
    WorkQueue queue(params_.schedule, params_.all_tiles, params_.heads_per_kv_head * params_.q_blocks, index,
                    producers);
    while (true) {
      WorkItem const item = queue.find();
      if (item.tile >= params_.all_tiles) break;
      queue.ask();
      hand_out(item);
    }
    note_end();
  }

private:
  static constexpr int exponent = config.weight_exponent();
  static_assert(config.q_tile == 128 && config.kv_tile == 64, "a tile is a mask block");

  /// Of the group's first head, among those of all batch items.
  __device__ __forceinline__ std::int64_t first_head(TilePosition const& at) const {
    return std::int64_t{at.batch} * params_.heads + at.head * params_.heads_per_kv_head;
  }

  /// Of the item's column over all heads of the group.
  __device__ __forceinline__ ColumnWalk walk_column(TilePosition const& at, WorkItem const& item) const {
    int const blocks = params_.heads_per_kv_head * params_.q_blocks;
    ColumnWords const words = column_words_of(params_.mask, at.batch * params_.kv_heads + at.head, at.tile,
                                              blocks, params_.row_words);
    return {words, item.first, item.end, words.load(ColumnWalk::chunk_of(item.first), item.end)};
  }

  /// One call of walk.next() alone: it is long, and all of it is compiled where it is called.
  __device__ __forceinline__ void hand_out(WorkItem const& item) {
    TilePosition const at = head_major_tile(item.tile, params_.kv_tiles, params_.kv_heads);
    ColumnWalk walk = walk_column(at, item);
    int block = -1;
    while (true) {
      int const next = walk.next();
      if (block >= 0)
        request_queries(at, block, next < 0);
      else if (next >= 0)
        request_keys(at, item.slot);
      else
        write_empty(at);
      if (next < 0) return;
      block = next;
    }
  }

  __device__ __forceinline__ void request_keys(TilePosition const& at, int partial) {
    int const slot = kv_at_.slot();
    pipe_.kv_empty(slot).wait(kv_at_.parity() ^ 1);
    int const token = uniform(at.tile) * config.kv_tile, head = uniform(at.head), batch = uniform(at.batch);
    if (elect_lane()) {
      Mbarrier const full = pipe_.kv_full(slot);
      pipe_.key_note(key_at_.slot()).write(at, partial);
      full.arrive_expecting(2 * Pipe::kv_bytes);
      BoxOrigin const origin{0, token, head, batch};
      load_panels<Pipe::panels>(pipe_.k(slot), Pipe::kv_panel_bytes, tensors_.k, origin, full);
      load_panels<Pipe::panels>(pipe_.v(slot), Pipe::kv_panel_bytes, tensors_.v, origin, full);
    }
    __syncwarp();
    kv_at_.advance();
    key_at_.advance();
  }

  __device__ __forceinline__ void note_end() {
    int const slot = kv_at_.slot();
    pipe_.kv_empty(slot).wait(kv_at_.parity() ^ 1);
    if (!elect_lane()) return;
    pipe_.key_note(key_at_.slot()).write_end();
    pipe_.kv_full(slot).arrive();
  }

  /// lse and delta of this lane's four rows of a tile.
  struct RowChunk {
    float4 lse, delta;
  };

  /// Padded rows of a head are as many as its blocks have, so those of a group lie as its blocks are counted.
  __device__ __forceinline__ RowChunk load_rows(TilePosition const& at, int block) const {
    std::int64_t const row = first_head(at) * params_.padded_rows + std::int64_t{block} * config.q_tile;
    return {reinterpret_cast<float4 const*>(params_.row_lse + row)[lane_index()],
            reinterpret_cast<float4 const*>(params_.delta + row)[lane_index()]};
  }

  template <class Of>
  static __device__ __forceinline__ float4 of_each(float4 const& x, Of of) {
    return {of(x.x), of(x.y), of(x.z), of(x.w)};
  }

  /// lse and delta are brought in the form in which consumers take them. Rows are loaded first: the ring is full most of the time, and then the wait for a slot hides their latency.
  __device__ __forceinline__ void request_queries(TilePosition const& at, int block, bool is_last) {
    RowChunk rows = load_rows(at, block);
    float const largest =
        fmaxf(fmaxf(fabsf(rows.lse.x), fabsf(rows.lse.y)), fmaxf(fabsf(rows.lse.z), fabsf(rows.lse.w)));
    bool const is_exact = !__all_sync(all_lanes, largest <= steady_lse);
    if (!is_exact)
      rows.lse = of_each(rows.lse, [](float lse) { return hold<LseForm::steady, exponent>(lse); });
    rows.delta = of_each(rows.delta, [](float delta) { return delta * (1.f / (1 << exponent)); });
    int const head = static_cast<unsigned>(block) / static_cast<unsigned>(params_.q_blocks);
    BoxOrigin const origin{0, uniform(block - head * params_.q_blocks) * config.q_tile,
                           uniform(at.head * params_.heads_per_kv_head + head), uniform(at.batch)};
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
    Mbarrier const full = ring.full(slot);
    if (elect_lane()) {
      ring.note_step(slot, step);
      full.arrive_expecting(Ring::tile_bytes);
      load_panels<Ring::panels>(ring.tile(slot), Ring::panel_bytes, tensor, origin, full);
    } else {
      full.arrive();
    }
    __syncwarp();
    place.advance();
  }

  /// Keys that no query keeps never reach the consumers.
  __device__ __forceinline__ void write_empty(TilePosition const& at) {
    int const first = at.tile * config.kv_tile, rows = min(config.kv_tile, params_.kv_tokens - first);
    clear_rows<config.head_dim>(params_.grad_k, at, first, rows);
    clear_rows<config.head_dim>(params_.grad_v, at, first, rows);
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
