#pragma once
/// What the producer and the consumers of the sm90a forward kernel share: the layout of shared memory, its barriers, and the
/// notes that travel with the data.

#include <cstdint>

#include "sparge/collective/key_step.cuh"
#include "sparge/collective/panels_sm90.cuh"
#include "sparge/collective/tile_note.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/mbarrier.cuh"
#include "sparge/device/shared_word.cuh"
#include "sparge/device/tma_sm90.cuh"
#include "sparge/plan/forward_config.hpp"

namespace sparge {

/// A tile of query rows that the consumers owe a verdict.
struct ForwardTile {
  int batch, head, tile;
  int slot;  ///< for the partial result of a piece of the rows; -1: all of it
};

/// What comes next: a tile, or the reason why there is none.
class ForwardWork {
public:
  /// `redo`: bit w: warp w asked for this tile once more, with the exact softmax; 0 the first time.
  static __device__ __forceinline__ ForwardWork tile(int q_slot, int verdict_slot, int redo) {
    return ForwardWork(redo << 8 | q_slot << 4 | verdict_slot);
  }
  /// Nothing is ready yet: store what you have.
  static __device__ __forceinline__ ForwardWork pause() { return ForwardWork(-1); }
  static __device__ __forceinline__ ForwardWork end() { return ForwardWork(-2); }

  __device__ __forceinline__ explicit ForwardWork(int note) : note_(note) {}
  __device__ __forceinline__ int note() const { return note_; }

  __device__ __forceinline__ bool is_end() const { return note_ == -2; }
  __device__ __forceinline__ bool is_tile() const { return note_ >= 0; }
  __device__ __forceinline__ bool is_first_pass() const { return note_ >= 0 && redo() == 0; }
  __device__ __forceinline__ int verdict_slot() const { return note_ & 0xf; }
  __device__ __forceinline__ int q_slot() const { return note_ >> 4 & 0xf; }
  __device__ __forceinline__ int redo() const { return note_ >> 8; }

private:
  int note_;
};

/// Two query tiles in turn, where O is staged when a tile's Q is no longer needed, and one ring of `stages` tiles that K and V take
/// in turn; then barriers and notes. Tiles are in panels of 64 channels (PanelDescriptor). A ring slot is full when its bytes
/// have come and empty when lane 0 of every consumer warp has arrived, which alone read its note; slots of Q and verdicts want all
/// consumer threads. Notes are written before the producer arrives at the barrier that fills the slot.
template <ForwardConfig config>
class ForwardPipe {
public:
  static constexpr int head_dim = config.head_dim, q_tile = config.q_tile, kv_tile = config.kv_tile;
  static constexpr int stages = config.stages, q_slots = 2, verdicts = 4;
  static constexpr int consumer_threads = 2 * q_tile;
  static constexpr int panels = head_dim / panel_channels;
  static constexpr int q_panel_bytes = q_tile * panel_row_bytes, kv_panel_bytes = kv_tile * panel_row_bytes;
  static constexpr int q_bytes = panels * q_panel_bytes, kv_bytes = panels * kv_panel_bytes;

  using QPosition = RingPosition<q_slots>;
  using KPosition = AlternatePosition<stages, 0>;
  using VPosition = AlternatePosition<stages, 1>;
  using VerdictPosition = RingPosition<verdicts>;

  __device__ __forceinline__ explicit ForwardPipe(std::uint32_t shared) : base_(shared) {}

  /// By one thread.
  __device__ __forceinline__ void init() const {
    for (int slot = 0; slot < q_slots; ++slot) q_full(slot).init(1), q_empty(slot).init(consumer_threads);
    for (int slot = 0; slot < stages; ++slot)
      kv_full(slot).init(1), kv_empty(slot).init(consumer_threads / 32);
    for (int slot = 0; slot < verdicts; ++slot) judged(slot).init(consumer_threads), clear_redo(slot);
    publish_mbarriers();
  }

  __device__ __forceinline__ std::uint32_t q(int slot) const { return base_ + slot * q_bytes; }
  __device__ __forceinline__ std::uint32_t kv(int slot) const { return base_ + kv_offset + slot * kv_bytes; }

  __device__ __forceinline__ Mbarrier q_full(int slot) const { return barrier(slot); }
  __device__ __forceinline__ Mbarrier q_empty(int slot) const { return barrier(q_slots + slot); }
  __device__ __forceinline__ Mbarrier judged(int slot) const { return barrier(2 * q_slots + slot); }
  __device__ __forceinline__ Mbarrier kv_full(int slot) const { return kv_barrier(0, slot); }
  __device__ __forceinline__ Mbarrier kv_empty(int slot) const { return kv_barrier(1, slot); }

  /// The work whose Q is in the slot.
  __device__ __forceinline__ void note_work(int slot, ForwardWork work) const {
    store_shared(base_ + work_offset + 4 * slot, work.note());
  }
  __device__ __forceinline__ ForwardWork read_work(int slot) const {
    return ForwardWork(load_shared(base_ + work_offset + 4 * slot));
  }

  /// The step whose K is in the slot.
  __device__ __forceinline__ void note_step(int slot, KeyStep const& step) const {
    store_shared(base_ + step_offset + 4 * slot, step.word());
  }
  /// By the whole warp, of which lane 0 reads: the one that arrives for it when the slot is empty.
  __device__ __forceinline__ KeyStep read_step(int slot) const {
    int word = 0;
    if (lane_index() == 0) word = load_shared(base_ + step_offset + 4 * slot);
    return KeyStep::of(uniform(word));
  }

  /// The tile that a verdict is about: valid until all consumers have given it.
  __device__ __forceinline__ void note_tile(int slot, ForwardTile const& at) const {
    tile_note(slot).write({at.batch, at.head, at.tile}, at.slot);
  }
  __device__ __forceinline__ ForwardTile read_tile(int slot) const {
    TilePosition const at = tile_note(slot).read();
    return {at.batch, at.head, at.tile, tile_note(slot).read_partial()};
  }

  /// Verdicts: bit w of `redo`: warp w asks for the tile once more.
  __device__ __forceinline__ void clear_redo(int slot) const { store_shared(redo_note(slot), 0); }
  __device__ __forceinline__ void ask_redo(int slot, int warp) const {
    or_shared(redo_note(slot), 1 << warp);
  }
  __device__ __forceinline__ int read_redo(int slot) const { return load_shared(redo_note(slot)); }

private:
  static constexpr int kv_offset = q_slots * q_bytes;
  static constexpr int barrier_offset = kv_offset + stages * kv_bytes;
  static constexpr int barriers = 2 * q_slots + verdicts + 2 * stages;
  static constexpr int work_offset = barrier_offset + barriers * 8;
  static constexpr int step_offset = work_offset + q_slots * 4;
  static constexpr int tile_offset = step_offset + stages * 4;
  static constexpr int redo_offset = tile_offset + verdicts * TileNote::bytes;

public:
  /// What barriers and notes leave of a team's shared memory begins here.
  static constexpr int end_offset = (redo_offset + verdicts * 4 + 15) / 16 * 16;

private:
  static_assert(end_offset <= barrier_offset + ForwardConfig::barrier_bytes);

  __device__ __forceinline__ Mbarrier barrier(int index) const {
    return Mbarrier(base_ + barrier_offset + 8 * index);
  }
  __device__ __forceinline__ Mbarrier kv_barrier(int kind, int slot) const {
    return barrier(2 * q_slots + verdicts + kind * stages + slot);
  }
  __device__ __forceinline__ TileNote tile_note(int slot) const {
    return TileNote(base_ + tile_offset + TileNote::bytes * slot);
  }
  __device__ __forceinline__ std::uint32_t redo_note(int slot) const {
    return base_ + redo_offset + 4 * slot;
  }

  std::uint32_t base_;
};

}  // namespace sparge
