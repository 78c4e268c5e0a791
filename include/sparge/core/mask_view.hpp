#pragma once
/// The three forms of a block mask. Bits are the form that every kernel reads; the other two convert on the device.

#include <cstddef>
#include <cstdint>

namespace sparge {

/// One bit per (query block, key block), 1 = kept.
///
/// Key block j of row (batch b, query head h, query block i) is bit j mod 32, least significant first, of 32-bit
/// word [b][h][i][j / 32]. Rows are padded to whole words; written masks pad with zeros, readers ignore the padding.
/// `words` is the whole length, see `mask_words()`; a wrong count is refused. 16-byte aligned device memory.
template <class Word>
struct MaskBits {
  Word* data = nullptr;
  std::size_t words = 0;

  operator MaskBits<Word const>() const { return {data, words}; }
};

template <class Word>
struct MaskBits<Word const> {
  Word const* data = nullptr;
  std::size_t words = 0;
};

using MaskOut = MaskBits<std::uint32_t>;
using MaskView = MaskBits<std::uint32_t const>;

/// Blocks [first, first + count) of an axis of a mask.
struct BlockRange {
  std::int64_t first = 0, count = 0;
};

/// One byte per (query block, key block), contiguous [batch, heads, q_blocks, kv_blocks]; non-zero = kept, written as 1.
/// Any alignment. `bytes` is the whole length.
template <class Byte>
struct ByteMask {
  Byte* data = nullptr;
  std::size_t bytes = 0;
};

using ByteMaskOut = ByteMask<std::uint8_t>;
using ByteMaskView = ByteMask<std::uint8_t const>;

/// Padded index lists: `counts` [batch, heads, q_blocks] and `indices` [batch, heads, q_blocks, capacity], 4-byte aligned.
/// The first counts[...] entries of a list are key blocks. On reading, duplicates are idempotent, entries outside
/// [0, kv_blocks) are skipped and a count is clamped to [0, capacity]. Written lists ascend; entries past the count are -1.
template <class Index>
struct BlockLists {
  Index* counts = nullptr;
  Index* indices = nullptr;
  std::int64_t capacity = 0;
};

using BlockListsOut = BlockLists<std::int32_t>;
using BlockListsView = BlockLists<std::int32_t const>;

}  // namespace sparge
