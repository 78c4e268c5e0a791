#pragma once
/// Iterates the query blocks that keep one key block, in ascending order, for a whole warp at once.

#include <cstdint>

#include "sparge/collective/row_walk.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// The bits of one key block, though the mask lies by query block: each lane looks at the word of another query block, and a
/// ballot makes a word of the column.
struct ColumnWords {
  std::uint32_t const* word;  ///< of query block 0; the next query block's lies `row_words` on
  int row_words, bit;

  __device__ __forceinline__ std::uint32_t load(int first, int blocks) const {
    constexpr int words_in_flight = 8;
    std::uint32_t column_word = 0;
#pragma unroll 1
    for (int index = 0; index < 32 && first + 32 * index < blocks; index += words_in_flight) {
      std::uint32_t words[words_in_flight];
#pragma unroll
      for (int i = 0; i < words_in_flight; ++i) {
        int const block = first + 32 * (index + i) + lane_index();
        words[i] = block < blocks ? word[std::int64_t{block} * row_words] : 0;
      }
#pragma unroll
      for (int i = 0; i < words_in_flight; ++i) {
        std::uint32_t const bits = __ballot_sync(all_lanes, words[i] >> bit & 1);
        if (lane_index() == index + i) column_word = bits;
      }
    }
    return column_word;
  }
};

using ColumnWalk = BlockWalk<ColumnWords>;

/// The kept query tiles of one key block in all heads of a group, head after head.
class GroupWalk {
public:
  /// `words` are those of the group's first head; the next head's mask lies `head_words` on.
  __device__ __forceinline__ GroupWalk(ColumnWords words, std::int64_t head_words, int heads, int blocks,
                                       int tiles_per_block, int tiles)
      : words_(words),
        head_words_(head_words),
        heads_(heads),
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
    ColumnWords const words{words_.word + head * head_words_, words_.row_words, words_.bit};
    return {ColumnWalk(words, blocks_), tiles_per_block_, tiles_};
  }

  ColumnWords words_;
  std::int64_t head_words_;
  int heads_, blocks_, tiles_per_block_, tiles_;
  int head_ = 0;
  TileWalk<ColumnWalk> walk_;
};

}  // namespace sparge
