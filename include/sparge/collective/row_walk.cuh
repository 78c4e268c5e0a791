#pragma once
/// Iterates the kept blocks of one mask row, or of any other bits, in ascending order, for a whole warp at once.

#include <cstdint>

#include "sparge/device/warp.cuh"

namespace sparge {

/// Each lane holds one word of a chunk of 32; walks of any length go chunk by chunk. `Words::load(first, blocks)` gives this
/// lane's word of the chunk that begins at block `first`. Every method is called by all lanes of the warp and returns the same
/// value to each.
template <class Words>
class BlockWalk {
public:
  /// Bits at or past `blocks` are ignored.
  __device__ __forceinline__ BlockWalk(Words words, int blocks)
      : BlockWalk(words, blocks, words.load(0, blocks)) {}

  /// With this lane's word of the first chunk, which was loaded earlier.
  __device__ __forceinline__ BlockWalk(Words words, int blocks, std::uint32_t word)
      : words_(words), blocks_(blocks), word_(word) {
    start_chunk();
  }

  /// Blocks first .. blocks - 1, with this lane's word of the chunk that block `first` is in.
  __device__ __forceinline__ BlockWalk(Words words, int first, int blocks, std::uint32_t word)
      : words_(words), blocks_(blocks), first_block_(chunk_of(first)), word_(word) {
    int const left_out = first - first_block_ - 32 * lane_index();
    if (left_out > 0) word_ &= left_out < 32 ? ~0u << left_out : 0;
    start_chunk();
  }

  /// The first block of the chunk that a block is in.
  static __device__ __forceinline__ int chunk_of(int block) { return block & -blocks_a_chunk; }

  /// The next kept block, or -1.
  __device__ __forceinline__ int next() {
    while (live_lanes_ == 0) {
      if (first_block_ + blocks_a_chunk >= blocks_ || first_block_ < 0) {
        first_block_ = -1;
        return -1;
      }
      first_block_ += blocks_a_chunk;
      word_ = words_.load(first_block_, blocks_);
      start_chunk();
    }
    int const owner = __ffs(static_cast<int>(live_lanes_)) - 1;
    std::uint32_t const word = __shfl_sync(all_lanes, word_, owner);
    std::uint32_t const rest = word & (word - 1);
    if (lane_index() == owner) word_ = rest;
    if (rest == 0) live_lanes_ &= live_lanes_ - 1;
    return first_block_ + 32 * owner + __ffs(static_cast<int>(word)) - 1;
  }

private:
  static constexpr int blocks_a_chunk = 32 * 32;

  __device__ __forceinline__ void start_chunk() {
    int const valid_bits = blocks_ - first_block_ - 32 * lane_index();
    if (valid_bits < 32) word_ &= valid_bits > 0 ? (1u << valid_bits) - 1 : 0;
    live_lanes_ = __ballot_sync(all_lanes, word_ != 0);
  }

  Words words_;
  int blocks_;
  int first_block_ = 0;       ///< of the chunk in registers; -1 once the walk has ended
  std::uint32_t word_;        ///< this lane's word, visited bits cleared
  std::uint32_t live_lanes_;  ///< lanes whose word has bits left
};

/// The words of a mask row as they lie: ceil(blocks / 32) of them.
struct RowWords {
  std::uint32_t const* row;

  __device__ __forceinline__ std::uint32_t load(int first, int blocks) const {
    int const block = first + 32 * lane_index();
    return block < blocks ? row[block / 32] : 0;
  }
};

using RowWalk = BlockWalk<RowWords>;

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
