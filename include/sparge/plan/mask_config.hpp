#pragma once
/// What the pooling and mask kernels are built for, and how their scratch memory is laid out.

#include <algorithm>
#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"
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

/// Scratch of selection: centred keys, and the rows in work. Rows are processed in chunks, so that the pairs in work
/// stay near `pairs_in_work` however long a row is.
struct SelectScratch {
  static constexpr std::int64_t pairs_in_work = std::int64_t{1} << 24;

  float* centred_k = nullptr;     ///< [batch, kv_heads, kv_blocks, head_dim]
  std::uint32_t* key = nullptr;   ///< [chunk_rows, kv_blocks], scores, then their order-preserving keys
  std::uint32_t* mass = nullptr;  ///< [chunk_rows, kv_blocks], softmax mass in units of 2^-31
  std::int64_t chunk_rows = 0;    ///< a row is one query block of one (batch, head)

  static SelectScratch lay_out(Carver& carver, AttentionProblem const& p) {
    SelectScratch scratch;
    std::int64_t const rows = p.batch * p.heads * p.q_blocks();
    std::int64_t const row_pairs = std::max<std::int64_t>(p.kv_blocks(), 1);
    scratch.chunk_rows = std::min(rows, std::max<std::int64_t>(pairs_in_work / row_pairs, 64));
    scratch.centred_k = carver.take<float>(p.batch * p.kv_heads * p.kv_blocks() * p.head_dim);
    scratch.key = carver.take<std::uint32_t>(scratch.chunk_rows * p.kv_blocks());
    scratch.mass = carver.take<std::uint32_t>(scratch.chunk_rows * p.kv_blocks());
    return scratch;
  }
};

}  // namespace sparge
