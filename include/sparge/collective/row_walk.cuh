#pragma once
/// Iterates the kept blocks of one mask row in ascending order, for a whole warp at once.

#include <cstdint>

#include "sparge/device/fragment.cuh"

namespace sparge {

/// Each lane holds one word of a 32-word chunk of the row; rows of any length are walked chunk by chunk.
/// Every method is called by all lanes of the warp and returns the same value to each.
class RowWalk {
public:
  /// `row` has ceil(blocks / 32) words; bits at or past `blocks` are ignored.
  __device__ __forceinline__ RowWalk(std::uint32_t const* row, int blocks) : row_(row), blocks_(blocks) {
    load_chunk();
  }

  /// The next kept block, or -1.
  __device__ __forceinline__ int next() {
    while (live_lanes_ == 0) {
      if (first_block_ + blocks_a_chunk >= blocks_ || first_block_ < 0) {
        first_block_ = -1;
        return -1;
      }
      first_block_ += blocks_a_chunk;
      load_chunk();
    }
    int const owner = __ffs(static_cast<int>(live_lanes_)) - 1;
    std::uint32_t const word = __shfl_sync(0xffffffffu, word_, owner);
    std::uint32_t const rest = word & (word - 1);
    if (lane_index() == owner) word_ = rest;
    if (rest == 0) live_lanes_ &= live_lanes_ - 1;
    return first_block_ + 32 * owner + __ffs(static_cast<int>(word)) - 1;
  }

private:
  static constexpr int blocks_a_chunk = 32 * 32;

  __device__ __forceinline__ void load_chunk() {
    int const lane_first_block = first_block_ + 32 * lane_index();
    int const valid_bits = blocks_ - lane_first_block;
    word_ = valid_bits > 0 ? row_[lane_first_block / 32] : 0;
    if (valid_bits > 0 && valid_bits < 32) word_ &= (1u << valid_bits) - 1;
    live_lanes_ = __ballot_sync(0xffffffffu, word_ != 0);
  }

  std::uint32_t const* row_;
  int blocks_;
  int first_block_ = 0;       ///< of the chunk in registers; -1 once the row has ended
  std::uint32_t word_;        ///< this lane's word, visited bits cleared
  std::uint32_t live_lanes_;  ///< lanes whose word has bits left
};

/// A walk over blocks in units of kernel tiles, where a block is one or more whole tiles. Tiles past the last token are left
/// out.
template <class BlockWalk>
class TileWalk {
public:
  __device__ __forceinline__ TileWalk(BlockWalk blocks, int tiles_per_block, int tiles)
      : blocks_(blocks), tiles_per_block_(tiles_per_block), tiles_(tiles) {}

  /// The next tile to compute, or -1.
  __device__ __forceinline__ int next() {
    if (++tile_ < end_) return tile_;
    int const block = blocks_.next();
    if (block < 0) return tile_ = end_ = -1;
    tile_ = block * tiles_per_block_;
    end_ = min(tile_ + tiles_per_block_, tiles_);
    return tile_;
  }

private:
  BlockWalk blocks_;
  int tiles_per_block_, tiles_;
  int tile_ = -1, end_ = -1;
};

/// A tile of the walked axis, and of which head of its group; no tile past the last.
struct TilePlace {
  int tile, head;
  __device__ __forceinline__ bool exists() const { return tile >= 0; }
};

/// The walk of a row as places.
class PlacedTileWalk {
public:
  __device__ __forceinline__ explicit PlacedTileWalk(TileWalk<RowWalk> walk) : walk_(walk) {}
  __device__ __forceinline__ TilePlace next() { return {walk_.next(), 0}; }

private:
  TileWalk<RowWalk> walk_;
};

}  // namespace sparge
