#pragma once
/// What the producer and the consumers of the sm90a kernel of dQ share: the layout of shared memory, its barriers, and the notes
/// that travel with the data.

#include <cstdint>

#include "sparge/collective/key_step.cuh"
#include "sparge/collective/panels_sm90.cuh"
#include "sparge/collective/tile_note.cuh"
#include "sparge/device/mbarrier.cuh"
#include "sparge/device/shared_word.cuh"
#include "sparge/plan/backward_config.hpp"

namespace sparge {

/// A tile of Q and one of dO, a staging tile for dQ, rings of `stages` tiles of K and of V; lse and delta of the rows; then
/// barriers and notes. Tiles are in panels of 64 channels (PanelDescriptor). A slot is full when its bytes have come and the
/// producer has arrived, for Q with each lane, which brings lse and delta; empty when all consumer threads have arrived.
template <BackwardConfig config>
class DqPipe {
public:
  static constexpr int stages = config.stages;
  static constexpr int consumer_threads = 2 * config.q_tile;
  static constexpr int panels = config.head_dim / panel_channels;
  static constexpr int q_panel_bytes = config.q_tile * panel_row_bytes;
  static constexpr int kv_panel_bytes = config.kv_tile * panel_row_bytes;
  static constexpr int q_bytes = panels * q_panel_bytes, kv_bytes = panels * kv_panel_bytes;
  static constexpr int tiles = 4;
  using RowPlace = RingPosition<1>;
  using KvPlace = RingPosition<stages>;

  __device__ __forceinline__ explicit DqPipe(std::uint32_t shared) : base_(shared) {}

  /// By one thread.
  __device__ __forceinline__ void init() const {
    q_full().init(32), q_empty().init(consumer_threads);
    grad_out_full().init(1), grad_out_empty().init(consumer_threads);
    for (int slot = 0; slot < stages; ++slot) {
      k_full(slot).init(1), k_empty(slot).init(consumer_threads);
      v_full(slot).init(1), v_empty(slot).init(consumer_threads);
    }
    publish_mbarriers();
  }

  __device__ __forceinline__ std::uint32_t q() const { return base_; }
  __device__ __forceinline__ std::uint32_t grad_out() const { return base_ + q_bytes; }
  __device__ __forceinline__ std::uint32_t staged() const { return base_ + 2 * q_bytes; }
  __device__ __forceinline__ std::uint32_t k(int slot) const { return base_ + 3 * q_bytes + slot * kv_bytes; }
  __device__ __forceinline__ std::uint32_t v(int slot) const { return k(stages + slot); }
  /// Of the rows whose Q is there: an f32 value each.
  __device__ __forceinline__ std::uint32_t lse() const { return base_ + values_offset; }
  __device__ __forceinline__ std::uint32_t delta() const { return lse() + values_bytes; }

  __device__ __forceinline__ Mbarrier q_full() const { return barrier(0); }
  __device__ __forceinline__ Mbarrier q_empty() const { return barrier(1); }
  __device__ __forceinline__ Mbarrier grad_out_full() const { return barrier(2); }
  __device__ __forceinline__ Mbarrier grad_out_empty() const { return barrier(3); }
  __device__ __forceinline__ Mbarrier k_full(int slot) const { return barrier(4 + slot); }
  __device__ __forceinline__ Mbarrier k_empty(int slot) const { return barrier(4 + stages + slot); }
  __device__ __forceinline__ Mbarrier v_full(int slot) const { return barrier(4 + 2 * stages + slot); }
  __device__ __forceinline__ Mbarrier v_empty(int slot) const { return barrier(4 + 3 * stages + slot); }

  /// Notes are taken in turn. Written before Q of the tile is requested. Q of the second tile after it is requested
  /// only when all warps have stored its rows, so four notes are enough.
  __device__ __forceinline__ TileNote tile_note(int slot) const {
    return TileNote(base_ + tiles_offset + TileNote::bytes * slot);
  }

  /// The step whose K is in the slot.
  __device__ __forceinline__ void note_step(int slot, KeyStep const& step) const {
    store_shared(step_note(slot), step.word());
  }
  __device__ __forceinline__ KeyStep read_step(int slot) const {
    return KeyStep::of(load_shared(step_note(slot)));
  }

private:
  static constexpr int values_bytes = config.q_tile * 4;
  static constexpr int values_offset = 3 * q_bytes + 2 * stages * kv_bytes;
  static constexpr int barriers_offset = values_offset + 2 * values_bytes;
  static constexpr int steps_offset = barriers_offset + (4 + 4 * stages) * 8;
  static constexpr int tiles_offset = steps_offset + stages * 4;
  static_assert(tiles_offset + tiles * TileNote::bytes <= config.smem_bytes());
  static_assert(barriers_offset + config.barrier_bytes() == config.smem_bytes());

  __device__ __forceinline__ Mbarrier barrier(int index) const {
    return Mbarrier(base_ + barriers_offset + 8 * index);
  }
  __device__ __forceinline__ std::uint32_t step_note(int slot) const {
    return base_ + steps_offset + 4 * slot;
  }

  std::uint32_t base_;
};

}  // namespace sparge
