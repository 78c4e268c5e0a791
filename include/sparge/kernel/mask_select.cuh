#pragma once
/// The mask rule: from the scores of a row to its mask bits. One warp a row; nothing is sorted.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_row.cuh"

namespace sparge {

class MaskSelect {
public:
  using Params = MaskSelectParams;
  static constexpr int threads = 32 * RowLayout::row_warps, ctas_per_sm = 6;
  static constexpr std::int64_t most_smem_bytes = RowLayout::most_shared_bytes;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    RowPosition const at = RowPosition::of_warp(params.rows);
    if (!at.exists) return;
    RankedRow const row(params.rows, at, smem);
    RowGoals const goals(params.rows.rule, at.head, row.all());
    write(params, at, row, PrefixWalk(find_prefix_end(row, row.all(), both_goals(goals.top_k, goals.top_p))));
  }

private:
  /// 32 blocks a step: one mask word.
  static __device__ __forceinline__ void write(Params const& params, RowPosition const& at,
                                               RankedRow const& row, PrefixWalk prefix) {
    BlockGrid const grid{params.whole_q_tokens, params.kv_tokens, params.q_block, params.kv_block};
    KeepRule const& keep = params.rows.rule.keep;
    std::int64_t const q_block = params.first_q_block + at.q_block;
    bool const dense = keeps_every_block(keep, grid, q_block);
    std::uint32_t* const words = params.mask + at.row * params.rows.row_words;
    for (int word = 0; word < params.rows.row_words; ++word) {
      int const block = 32 * word + lane_index();
      bool const exists = block < row.blocks();
      bool const chosen = prefix.step(row.key(block), exists);
      bool const kept = chosen || (exists && (dense || is_forced_pair(keep, grid, q_block, block)));
      unsigned const bits = __ballot_sync(all_lanes, kept);
      if (lane_index() == 0) words[word] = bits;
    }
  }
};

SPARGE_INLINE cudaError_t launch_mask_select(MaskSelectParams const& params, std::int64_t shared_bytes,
                                             cudaStream_t stream) noexcept {
  return launch<MaskSelect>(params, row_grid_blocks(params.rows.chunk), shared_bytes, stream);
}

}  // namespace sparge
