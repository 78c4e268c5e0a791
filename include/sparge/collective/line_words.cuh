#pragma once
/// The bits of a line: what a tile visits, in one run of blocks.

#include <cstdint>

#include "sparge/collective/column_walk.cuh"
#include "sparge/collective/row_walk.cuh"

namespace sparge {

/// The mask row of a query tile, where a tile is a mask block.
__device__ __forceinline__ RowWords row_words_of(std::uint32_t const* mask, std::int64_t tile,
                                                 int row_words) {
  return {mask + tile * row_words};
}

/// The mask column of key block `block` of a group of heads: `blocks` query blocks, those of the group's second head after those of
/// its first, since their rows lie so.
__device__ __forceinline__ ColumnWords column_words_of(std::uint32_t const* mask, std::int64_t group,
                                                       int block, std::int64_t blocks, int row_words) {
  return {mask + group * blocks * row_words + block / 32, row_words, block % 32};
}

/// The bits of a word that begins at block `first` and stand for a block.
__device__ __forceinline__ std::uint32_t valid_bits(int first, int blocks) {
  int const valid = blocks - first;
  return valid >= 32 ? ~0u : (1u << valid) - 1;
}

}  // namespace sparge
