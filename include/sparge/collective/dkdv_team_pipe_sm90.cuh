#pragma once
/// What the producer warp and the warpgroup of a team share in the sm90a kernel of dK and dV at head_dim 64.

#include <cstdint>

#include "sparge/collective/dkdv_pipe_sm90.cuh"
#include "sparge/collective/panels_sm90.cuh"
#include "sparge/collective/tile_note.cuh"
#include "sparge/device/mbarrier.cuh"
#include "sparge/device/shared_word.cuh"
#include "sparge/plan/backward_config.hpp"

namespace sparge {

/// A ring of Q with lse, one of dO with delta, two slots of K and V, in which gradients are staged when their keys are no longer
/// needed.
template <BackwardConfig config>
class DkdvTeamPipe {
public:
  using Queries = QueryRing<config, config.stages>;
  using GradOuts = QueryRing<config, config.stages>;
  static constexpr int warps = 4;
  static constexpr int panels = config.head_dim / panel_channels;
  static constexpr int kv_panel_bytes = config.kv_tile * panel_row_bytes, kv_bytes = panels * kv_panel_bytes;
  static constexpr int key_tiles = 4, kv_slots = 2;
  using KeyPlace = RingPosition<key_tiles>;
  static constexpr int bytes = static_cast<int>(config.smem_bytes()) / config.teams();

  __device__ __forceinline__ explicit DkdvTeamPipe(std::uint32_t shared) : base_(shared) {}

  /// By one thread.
  __device__ __forceinline__ void init() const {
    constexpr int threads = warps * 32;
    queries().init(threads);
    grad_outs().init(threads);
    for (int slot = 0; slot < kv_slots; ++slot) kv_full(slot).init(1), kv_empty(slot).init(threads);
    publish_mbarriers();
  }

  __device__ __forceinline__ Queries queries() const {
    return {base_, base_ + values_offset, base_ + notes_offset};
  }
  __device__ __forceinline__ GradOuts grad_outs() const {
    return {base_ + Queries::slots * Queries::tile_bytes,
            base_ + values_offset + Queries::slots * Queries::values_bytes,
            base_ + notes_offset + Queries::notes_bytes};
  }

  __device__ __forceinline__ std::uint32_t k(int slot) const {
    return base_ + k_offset + 2 * slot * kv_bytes;
  }
  __device__ __forceinline__ std::uint32_t v(int slot) const { return k(slot) + kv_bytes; }
  __device__ __forceinline__ Mbarrier kv_full(int slot) const { return barrier(slot); }
  __device__ __forceinline__ Mbarrier kv_empty(int slot) const { return barrier(kv_slots + slot); }

  /// Notes are taken in turn. Written before K and V of the tile are requested, which is when gradients of the
  /// second tile before it are stored.
  __device__ __forceinline__ TileNote key_note(int slot) const {
    return TileNote(base_ + key_notes_offset + TileNote::bytes * slot);
  }

private:
  static constexpr int k_offset = 2 * Queries::slots * Queries::tile_bytes;
  static constexpr int values_offset = k_offset + 2 * kv_slots * kv_bytes;
  static constexpr int notes_offset = values_offset + 2 * Queries::slots * Queries::values_bytes;
  static constexpr int barriers_offset = notes_offset + 2 * Queries::notes_bytes;
  static constexpr int key_notes_offset = barriers_offset + 2 * kv_slots * 8;
  static_assert(key_notes_offset + key_tiles * TileNote::bytes <= bytes && bytes % 1024 == 0);
  static_assert(notes_offset + config.barrier_bytes() == bytes);

  __device__ __forceinline__ Mbarrier barrier(int index) const {
    return Mbarrier(base_ + barriers_offset + 8 * index);
  }

  std::uint32_t base_;
};

}  // namespace sparge
