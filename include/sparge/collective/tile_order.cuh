#pragma once
/// Which tile a thread block computes: all tiles of one head before the next, so that a head's K and V stay in L2.

#include <cstdint>

namespace sparge {

struct TilePosition {
  int batch, head, tile;
};

__device__ __forceinline__ TilePosition head_major_tile(std::uint32_t index, std::uint32_t tiles,
                                                        std::uint32_t heads) {
  std::uint32_t const head = index / tiles;
  return {static_cast<int>(head / heads), static_cast<int>(head % heads), static_cast<int>(index % tiles)};
}

}  // namespace sparge
