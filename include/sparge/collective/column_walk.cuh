#pragma once
/// Iterates the query blocks that keep one key block, in ascending order, for a whole warp at once.

#include <cstdint>

#include "sparge/collective/row_walk.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// The mask lies by query block, so each lane looks at the word of another one. The next chunks of 32 are on their way while
/// one is visited. Every method is called by all lanes of the warp and returns the same value to each.
class ColumnWalk {
public:
  /// Query block 0 keeps the key block by bit `bit` of `*word`; the next query block's word lies `row_words` on.
  __device__ __forceinline__ ColumnWalk(std::uint32_t const* word, int row_words, int bit, int blocks)
      : word_(word), row_words_(row_words), bit_(bit), blocks_(blocks) {
#pragma unroll
    for (int chunk = 0; chunk < chunks_ahead; ++chunk) ahead_[chunk] = load(chunk * blocks_a_chunk);
  }

  /// The next query block, or -1.
  __device__ __forceinline__ int next() {
    while (bits_ == 0) {
      if (first_block_ + blocks_a_chunk >= blocks_) return -1;
      first_block_ += blocks_a_chunk;
      take_chunk();
    }
    int const bit = __ffs(static_cast<int>(bits_)) - 1;
    bits_ &= bits_ - 1;
    return first_block_ + bit;
  }

private:
  static constexpr int blocks_a_chunk = 32, chunks_ahead = 3;

  __device__ __forceinline__ void take_chunk() {
    bits_ = __ballot_sync(all_lanes, ahead_[0] >> bit_ & 1);
#pragma unroll
    for (int chunk = 0; chunk + 1 < chunks_ahead; ++chunk) ahead_[chunk] = ahead_[chunk + 1];
    ahead_[chunks_ahead - 1] = load(first_block_ + chunks_ahead * blocks_a_chunk);
  }

  __device__ __forceinline__ std::uint32_t load(int first) const {
    int const block = first + lane_index();
    return block < blocks_ ? word_[std::int64_t{block} * row_words_] : 0;
  }

  std::uint32_t const* word_;
  int row_words_, bit_, blocks_;
  int first_block_ = -blocks_a_chunk;  ///< of the chunk being visited
  std::uint32_t bits_ = 0;             ///< of that chunk, visited ones cleared
  std::uint32_t ahead_[chunks_ahead];  ///< this lane's words of the chunks after it
};

/// The kept query tiles of one key block in all heads of a group, head after head.
class GroupWalk {
public:
  /// `word` and the counts are those of ColumnWalk in the group's first head; the next head's mask lies `head_words` on.
  __device__ __forceinline__ GroupWalk(std::uint32_t const* word, std::int64_t head_words, int heads,
                                       int row_words, int bit, int blocks, int tiles_per_block, int tiles)
      : word_(word),
        head_words_(head_words),
        heads_(heads),
        row_words_(row_words),
        bit_(bit),
        blocks_(blocks),
        tiles_per_block_(tiles_per_block),
        tiles_(tiles),
        walk_(of_head(0)) {}

  __device__ __forceinline__ TilePlace next() {
    while (true) {
      int const tile = walk_.next();
      if (tile >= 0) return {tile, head_};
      if (head_ + 1 >= heads_) return {-1, head_};
      walk_ = of_head(++head_);
    }
  }

private:
  __device__ __forceinline__ TileWalk<ColumnWalk> of_head(int head) const {
    return {ColumnWalk(word_ + head * head_words_, row_words_, bit_, blocks_), tiles_per_block_, tiles_};
  }

  std::uint32_t const* word_;
  std::int64_t head_words_;
  int heads_, row_words_, bit_, blocks_, tiles_per_block_, tiles_;
  int head_ = 0;
  TileWalk<ColumnWalk> walk_;
};

}  // namespace sparge
