#pragma once
/// What the pooling and mask kernels are built for, and how their scratch memory is laid out.

#include <algorithm>
#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
#include "sparge/core/device.hpp"
#include "sparge/core/problem.hpp"

namespace sparge {

inline constexpr std::int32_t pool_head_dims[] = {64, 128};
inline constexpr std::int32_t mask_block_sizes[] = {64, 128};

constexpr bool is_pool_head_dim(std::int32_t head_dim) {
  for (std::int32_t built : pool_head_dims)
    if (built == head_dim) return true;
  return false;
}

constexpr bool is_mask_block_size(std::int32_t block) {
  for (std::int32_t built : mask_block_sizes)
    if (built == block) return true;
  return false;
}

/// How the rows of a mask are scored: a row is one query block of one (batch, query head).
///
/// The rows of the query heads that share a kv head are adjacent, so they form a *group* that is cut into tiles of
/// `tile_rows`; the last tile of a group may be partial. Tiles are taken in chunks, so that the pairs in work stay near
/// `pairs_in_work` however many rows there are. A row of scores is padded to a multiple of `tile_columns`.
struct RowLayout {
  static constexpr std::int32_t tile_rows = 128, tile_columns = 128;
  static constexpr std::int32_t step_columns = 32;  ///< columns that a thread block scores at a time
  static constexpr std::int32_t row_warps = 4;  ///< rows that a thread block of the selecting kernels takes
  static constexpr std::int64_t pairs_in_work = std::int64_t{1} << 25;
  /// Shared memory for ranked rows that still leaves room for two thread blocks on most SMs.
  static constexpr std::int64_t most_shared_bytes = 96 * 1024;
  /// Longest row that selection holds in the registers of one thread block: a million tokens.
  static constexpr std::int64_t most_register_blocks = 16384;

  std::int64_t groups = 0, group_rows = 0, group_tiles = 0;
  std::int64_t tiles = 0, chunk_tiles = 0;
  std::int32_t sm_count = 0, capability = 0;  ///< of the device
  std::int64_t pitch = 0;                     ///< values from one row of scores to the next
  bool in_registers =
      false;  ///< whether selection holds a row in registers; otherwise it ranks rows as statistics do
  bool in_shared = false;  ///< whether ranked rows fit shared memory; otherwise they live in scratch

  static constexpr RowLayout of(AttentionProblem const& p, Device const& device) {
    RowLayout layout;
    layout.sm_count = device.sm_count;
    layout.capability = device.capability();
    layout.groups = p.batch * p.kv_heads;
    layout.group_rows = p.heads / p.kv_heads * p.q_blocks();
    layout.group_tiles = ceil_div(layout.group_rows, tile_rows);
    layout.tiles = layout.groups * layout.group_tiles;
    layout.pitch = ceil_div(p.kv_blocks(), tile_columns) * tile_columns;
    std::int64_t const tile_pairs = std::max<std::int64_t>(tile_rows * layout.pitch, 1);
    layout.chunk_tiles = std::min(layout.tiles, std::max<std::int64_t>(pairs_in_work / tile_pairs, 1));
    layout.in_registers =
        p.kv_blocks() <= most_register_blocks && held_bytes(p.kv_blocks()) <= device.shared_bytes_per_block;
    layout.in_shared =
        layout.ranked_bytes() <= std::min<std::int64_t>(most_shared_bytes, device.shared_bytes_per_block);
    return layout;
  }

  /// Shared memory of a thread block that holds rows in registers, or more: lists of scores and masses for as many blocks as
  /// there is room for in its registers, which are at most twice the blocks of a long row; and what its warps tell each other.
  static constexpr std::int64_t held_bytes(std::int64_t kv_blocks) {
    std::int64_t const of_short_rows = row_warps * 1280 * 8, of_long_row = 2 * kv_blocks * 8;
    return (kv_blocks <= 1280 ? of_short_rows
                              : std::min<std::int64_t>(of_long_row, most_register_blocks * 8)) +
           2048;
  }

  /// Keys and masses of the rows of one thread block.
  constexpr std::int64_t ranked_bytes() const { return row_warps * pitch * 8; }
  constexpr std::int64_t shared_bytes() const { return in_shared ? ranked_bytes() : 0; }
  constexpr std::int64_t mass_pairs(bool holds_rows) const {
    return in_shared || (holds_rows && in_registers) ? 0 : chunk_pairs();
  }
  constexpr std::int64_t chunk_pairs() const { return chunk_tiles * tile_rows * pitch; }
};

/// Sums over the keys of one head, or of a segment of it, in one channel. NaN is neither the least nor the greatest.
struct alignas(16) KeySum {
  double sum;
  float least, greatest;
};

/// How the keys of a head are cut into segments that are summed at once, few enough that adding up their sums is quick.
struct KeySegments {
  static constexpr std::int64_t most = 32, least_blocks = 64;
  std::int64_t count = 0, blocks = 0;

  static constexpr KeySegments of(std::int64_t kv_blocks) {
    if (kv_blocks <= 0) return {};
    std::int64_t const count = std::min(most, ceil_div(kv_blocks, least_blocks));
    std::int64_t const blocks = ceil_div(kv_blocks, count);
    return {ceil_div(kv_blocks, blocks), blocks};
  }
};

/// Key blocks that a thread block splits.
inline constexpr std::int32_t split_tile_blocks = 64;

/// Scratch of scores and of what ranks them.
struct SelectScratch {
  KeySum* key_sums = nullptr;           ///< [batch, kv_heads, segments, head_dim]
  float* key_mean = nullptr;            ///< [batch, kv_heads, head_dim]: mean pooled key of a head
  float* key_size = nullptr;            ///< likewise: size of a channel's largest centred key
  std::uint16_t* split_keys = nullptr;  ///< [batch, kv_heads, kv_blocks, 2, head_dim]: f16
  std::uint32_t* scores =
      nullptr;  ///< [chunk rows, pitch]: bits of f32 scores, then keys where rows are not in shared memory
  std::uint32_t* mass = nullptr;  ///< likewise, only where rows are not in shared memory

  /// `holds_rows` where the kernel that follows is one that may hold rows in registers.
  static SelectScratch lay_out(Carver& carver, AttentionProblem const& p, RowLayout const& layout,
                               bool holds_rows) {
    SelectScratch scratch;
    scratch.key_sums = carver.take<KeySum>(layout.groups * KeySegments::of(p.kv_blocks()).count * p.head_dim);
    scratch.key_mean = carver.take<float>(layout.groups * p.head_dim);
    scratch.key_size = carver.take<float>(layout.groups * p.head_dim);
    scratch.split_keys = carver.take<std::uint16_t>(layout.groups * p.kv_blocks() * 2 * p.head_dim);
    scratch.scores = carver.take<std::uint32_t>(layout.chunk_pairs());
    scratch.mass = carver.take<std::uint32_t>(layout.mass_pairs(holds_rows));
    return scratch;
  }
};

/// Scratch of build_mask: pooled vectors, then selection.
struct BuildMaskScratch {
  float* pooled_q = nullptr;  ///< [batch, heads, q_blocks, head_dim]
  float* pooled_k = nullptr;  ///< [batch, kv_heads, kv_blocks, head_dim]
  SelectScratch select;

  static BuildMaskScratch lay_out(Carver& carver, AttentionProblem const& p, RowLayout const& layout) {
    BuildMaskScratch scratch;
    scratch.pooled_q = carver.take<float>(p.batch * p.heads * p.q_blocks() * p.head_dim);
    scratch.pooled_k = carver.take<float>(p.batch * p.kv_heads * p.kv_blocks() * p.head_dim);
    scratch.select = SelectScratch::lay_out(carver, p, layout, true);
    return scratch;
  }
};

/// What a mask keeps of one row, by who asks for it.
struct RowStats {
  double mass;  ///< softmax mass of the kept pairs
  std::int32_t kept, by_both, by_top_k, by_top_p;
};

/// Scratch of mask_stats: selection, then one record a row.
struct MaskStatsScratch {
  SelectScratch select;
  RowStats* rows = nullptr;  ///< [batch, heads, q_blocks]

  static MaskStatsScratch lay_out(Carver& carver, AttentionProblem const& p, RowLayout const& layout) {
    MaskStatsScratch scratch;
    scratch.select = SelectScratch::lay_out(carver, p, layout, false);
    scratch.rows = carver.take<RowStats>(p.batch * p.heads * p.q_blocks());
    return scratch;
  }
};

}  // namespace sparge
