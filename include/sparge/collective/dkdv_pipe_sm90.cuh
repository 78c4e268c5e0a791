#pragma once
/// What the warpgroups of the sm90a kernel of dK and dV share: the layout of shared memory, its barriers, and the notes that
/// travel with the data.

#include <cstdint>

#include "sparge/collective/panels_sm90.cuh"
#include "sparge/collective/tile_note.cuh"
#include "sparge/device/mbarrier.cuh"
#include "sparge/device/shared_word.cuh"
#include "sparge/plan/backward_config.hpp"

namespace sparge {

/// A slot of a ring of any size, and the parity of the phase that its barriers are in.
template <int slots>
class RingPlace {
public:
  __device__ __forceinline__ int slot() const { return slot_; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }
  __device__ __forceinline__ void advance() {
    bool const wraps = slot_ == slots - 1;
    slot_ = wraps ? 0 : slot_ + 1;
    parity_ ^= static_cast<std::uint32_t>(wraps);
  }

private:
  int slot_ = 0;
  std::uint32_t parity_ = 0;
};

/// Of one tile of queries.
struct DkdvStep {
  bool is_last;   ///< of its column
  bool is_exact;  ///< lse of its rows is held as LseForm::exact
};

/// A ring of query tiles in panels of 64 channels (PanelDescriptor), with an f32 value and a step for each. A slot is full when
/// its bytes have come and all lanes of the producer have arrived, empty when all consumer threads have: each for what it wrote or
/// read itself.
template <BackwardConfig config, int ring_slots>
class QueryRing {
public:
  static constexpr int slots = ring_slots;
  static constexpr int panels = config.head_dim / panel_channels,
                       panel_bytes = config.q_tile * panel_row_bytes;
  static constexpr int tile_bytes = panels * panel_bytes, values_bytes = config.q_tile * 4;
  static constexpr int notes_bytes = slots * 24;  ///< two barriers and a step, rounded up
  using Place = RingPlace<slots>;

  __device__ __forceinline__ QueryRing(std::uint32_t tiles, std::uint32_t values, std::uint32_t notes)
      : tiles_(tiles), values_(values), notes_(notes) {}

  /// By one thread.
  __device__ __forceinline__ void init(int consumers) const {
    for (int slot = 0; slot < slots; ++slot) full(slot).init(32), empty(slot).init(consumers);
  }

  __device__ __forceinline__ std::uint32_t tile(int slot) const { return tiles_ + slot * tile_bytes; }
  __device__ __forceinline__ std::uint32_t values(int slot) const { return values_ + slot * values_bytes; }
  __device__ __forceinline__ Mbarrier full(int slot) const { return Mbarrier(notes_ + 8 * slot); }
  __device__ __forceinline__ Mbarrier empty(int slot) const { return Mbarrier(notes_ + 8 * (slots + slot)); }

  __device__ __forceinline__ void note_step(int slot, DkdvStep const& step) const {
    store_shared(step_note(slot), static_cast<int>(step.is_exact) << 1 | static_cast<int>(step.is_last));
  }
  __device__ __forceinline__ DkdvStep read_step(int slot) const {
    int const note = load_shared(step_note(slot));
    return {(note & 1) != 0, (note & 2) != 0};
  }

private:
  __device__ __forceinline__ std::uint32_t step_note(int slot) const {
    return notes_ + 16 * slots + 4 * slot;
  }

  std::uint32_t tiles_, values_, notes_;
};

/// A ring of Q with lse and one of dO with delta; two mail slots for P^T, which the warpgroup of dV hands to that of dK, warp
/// by warp; one slot each for K and V.
template <BackwardConfig config>
class DkdvPipe {
public:
  using Queries = QueryRing<config, config.stages>;
  using GradOuts = QueryRing<config, config.stages - 1>;
  static constexpr int warps = 4;  ///< of a warpgroup
  static constexpr int panels = config.head_dim / panel_channels;
  static constexpr int kv_panel_bytes = config.kv_tile * panel_row_bytes, kv_bytes = panels * kv_panel_bytes;
  static constexpr int mail_slots = 2, mail_warp_bytes = 16 * config.q_tile * 2;
  static constexpr int key_tiles = 4, kv_slots = 1;
  using KeyPlace = RingPosition<key_tiles>;
  using MailPlace = RingPosition<mail_slots>;
  static_assert(16 * config.head_dim * 2 <= mail_warp_bytes, "gradients are staged in mail slots");

  __device__ __forceinline__ explicit DkdvPipe(std::uint32_t shared) : base_(shared) {}

  /// By one thread.
  __device__ __forceinline__ void init() const {
    constexpr int threads = 2 * warps * 32;
    queries().init(threads);
    grad_outs().init(threads);
    kv_full(0).init(1), kv_empty(0).init(threads);
    for (int slot = 0; slot < mail_slots; ++slot)
      for (int warp = 0; warp < warps; ++warp)
        mail_full(slot, warp).init(32), mail_empty(slot, warp).init(32);
    publish_mbarriers();
  }

  __device__ __forceinline__ Queries queries() const {
    return {base_, base_ + values_offset, base_ + notes_offset};
  }
  __device__ __forceinline__ GradOuts grad_outs() const {
    return {base_ + grad_outs_offset, base_ + values_offset + Queries::slots * Queries::values_bytes,
            base_ + notes_offset + Queries::notes_bytes};
  }

  __device__ __forceinline__ std::uint32_t k(int) const { return base_ + k_offset; }
  __device__ __forceinline__ std::uint32_t v(int) const { return base_ + k_offset + kv_bytes; }
  __device__ __forceinline__ Mbarrier kv_full(int) const { return barrier(0); }
  __device__ __forceinline__ Mbarrier kv_empty(int) const { return barrier(1); }

  __device__ __forceinline__ std::uint32_t mail(int slot, int warp) const {
    return base_ + mail_offset + (slot * warps + warp) * mail_warp_bytes;
  }
  __device__ __forceinline__ Mbarrier mail_full(int slot, int warp) const {
    return barrier(2 + slot * warps + warp);
  }
  __device__ __forceinline__ Mbarrier mail_empty(int slot, int warp) const {
    return barrier(2 + (mail_slots + slot) * warps + warp);
  }

  /// Notes are taken in turn. Written before K and V of the tile are requested. K and V of the third tile after it
  /// are requested only when both warpgroups have stored its gradients, so four notes are enough.
  __device__ __forceinline__ TileNote key_note(int slot) const {
    return TileNote(base_ + key_notes_offset + TileNote::bytes * slot);
  }

private:
  static constexpr int grad_outs_offset = Queries::slots * Queries::tile_bytes;
  static constexpr int mail_offset = grad_outs_offset + GradOuts::slots * GradOuts::tile_bytes;
  static constexpr int k_offset = mail_offset + mail_slots * warps * mail_warp_bytes;
  static constexpr int values_offset = k_offset + 2 * kv_bytes;
  static constexpr int notes_offset =
      values_offset + (Queries::slots + GradOuts::slots) * Queries::values_bytes;
  static constexpr int barriers_offset = notes_offset + Queries::notes_bytes + GradOuts::notes_bytes;
  static constexpr int key_notes_offset = barriers_offset + (2 + 2 * mail_slots * warps) * 8;
  static_assert(key_notes_offset + key_tiles * TileNote::bytes <= config.smem_bytes());
  static_assert(notes_offset + config.barrier_bytes() == config.smem_bytes());

  __device__ __forceinline__ Mbarrier barrier(int index) const {
    return Mbarrier(base_ + barriers_offset + 8 * index);
  }

  std::uint32_t base_;
};

}  // namespace sparge
