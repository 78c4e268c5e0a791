#pragma once
/// Scores the rows of a mask, chunk by chunk: what selection and statistics share.

#include "sparge/kernel/mask_params.hpp"
#include "sparge/op/guard.hpp"
#include "sparge/plan/validate.hpp"

namespace sparge::detail {

struct PooledVectors {
  float const *q, *k;
};

inline bool has_pairs(AttentionProblem const& p) { return p.batch > 0 && p.q_tokens > 0 && p.kv_tokens > 0; }

/// Grids of the kernels that score and rank: every chunk is far smaller than the limit, unless one tile of rows is not.
inline Status validate_score_grid(AttentionProblem const& p, RowLayout const& layout) {
  SPARGE_TRY(validate_grid(p, checked_product({layout.groups, ceil_div(p.kv_blocks(), split_tile_blocks)})));
  return validate_grid(p, checked_product({layout.chunk_tiles, RowLayout::tile_rows}));
}

inline Status validate_pooled(AttentionProblem const& p, PooledVectors const& pooled) {
  SPARGE_TRY(validate_pointer("pooled_q", pooled.q, p.batch * p.q_tokens));
  return validate_pointer("pooled_k", pooled.k, p.batch * p.kv_tokens);
}

inline MaskRowsParams rows_params(AttentionProblem const& p, MaskRule const& rule, RowLayout const& layout,
                                  SelectScratch const& scratch) {
  MaskRowsParams params;
  params.scores = scratch.scores;
  params.mass = layout.in_shared ? nullptr : scratch.mass;  // null too where rows are held in registers
  params.group_rows = layout.group_rows;
  params.group_tiles = layout.group_tiles;
  params.pitch = layout.pitch;
  params.heads = p.heads;
  params.q_blocks = p.q_blocks();
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.row_words = static_cast<std::int32_t>(p.row_words());
  params.rule = rule;
  return params;
}

/// Whether the device of a layout runs code for 9.0a that this build has.
inline bool runs_code_for_90a(RowLayout const& layout) {
  return layout.capability == 90 && has_kernels_of(Arch::sm90a, built::targets);
}

inline MaskKeysParams keys_params(AttentionProblem const& p, RowLayout const& layout,
                                  SelectScratch const& scratch, PooledVectors const& pooled) {
  KeySegments const segments = KeySegments::of(p.kv_blocks());
  MaskKeysParams params;
  params.pooled_k = pooled.k;
  params.sums = scratch.key_sums;
  params.key_mean = scratch.key_mean;
  params.key_size = scratch.key_size;
  params.split_keys = scratch.split_keys;
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.head_dim = p.head_dim;
  params.segments = static_cast<std::int32_t>(segments.count);
  params.segment_blocks = static_cast<std::int32_t>(segments.blocks);
  params.code_is_90a = runs_code_for_90a(layout);
  return params;
}

inline MaskScoresParams scores_params(AttentionProblem const& p, RowLayout const& layout,
                                      SelectScratch const& scratch, PooledVectors const& pooled) {
  MaskScoresParams params;
  params.pooled_q = pooled.q;
  params.pooled_k = pooled.k;
  params.key_mean = scratch.key_mean;
  params.key_size = scratch.key_size;
  params.split_keys = scratch.split_keys;
  params.scores = scratch.scores;
  params.group_rows = layout.group_rows;
  params.group_tiles = layout.group_tiles;
  params.pitch = layout.pitch;
  params.kv_blocks = static_cast<std::int32_t>(p.kv_blocks());
  params.head_dim = p.head_dim;
  params.sm_count = layout.sm_count;
  params.code_is_90a = runs_code_for_90a(layout);
  params.scale = p.logit_scale();
  return params;
}

/// Enqueues scoring, and after each chunk what `enqueue_rows(chunk)` makes of it.
template <class EnqueueRows>
Status enqueue_scored_rows(AttentionProblem const& p, RowLayout const& layout, SelectScratch const& scratch,
                           PooledVectors const& pooled, cudaStream_t stream, EnqueueRows enqueue_rows) {
  if (!has_pairs(p)) return {};
  SPARGE_TRY(launch_result("kernel of keys",
                           launch_mask_keys(keys_params(p, layout, scratch, pooled), layout.groups, stream)));
  MaskScoresParams scores = scores_params(p, layout, scratch, pooled);
  for (std::int64_t first = 0; first < layout.tiles; first += layout.chunk_tiles) {
    scores.chunk = {first, std::min(layout.chunk_tiles, layout.tiles - first)};
    SPARGE_TRY(launch_result("scoring kernel", launch_mask_scores(scores, stream)));
    SPARGE_TRY(enqueue_rows(scores.chunk));
  }
  return {};
}

}  // namespace sparge::detail
