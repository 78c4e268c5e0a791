#pragma once
/// What a loading warp notes in shared memory of a tile that it hands out.

#include <cstdint>

#include "sparge/collective/tile_order.cuh"
#include "sparge/device/shared_word.cuh"

namespace sparge {

/// Where the tile is, and `partial`: the slot for the partial result of a piece of its line, -1 for all of it.
class TileNote {
public:
  static constexpr int bytes = 16;

  __device__ __forceinline__ explicit TileNote(std::uint32_t shared) : shared_(shared) {}

  __device__ __forceinline__ void write(TilePosition const& at, int partial) const {
    store_shared(shared_, at.batch);
    store_shared(shared_ + 4, at.head);
    store_shared(shared_ + 8, at.tile);
    store_shared(shared_ + 12, partial);
  }
  /// Instead of a tile: there is none left.
  __device__ __forceinline__ void write_end() const { write({0, 0, -1}, -1); }

  __device__ __forceinline__ bool is_end() const { return load_shared(shared_ + 8) < 0; }
  __device__ __forceinline__ TilePosition read() const {
    return {load_shared(shared_), load_shared(shared_ + 4), load_shared(shared_ + 8)};
  }
  __device__ __forceinline__ int read_partial() const { return load_shared(shared_ + 12); }

private:
  std::uint32_t shared_;
};

}  // namespace sparge
