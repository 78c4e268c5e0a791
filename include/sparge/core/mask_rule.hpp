#pragma once
/// Which key blocks a query block keeps: the hybrid Top-k + Top-p rule and what is kept regardless of it.

#include <cstdint>

namespace sparge {

/// Blocks that are kept whatever their score; OR-ed in after the choice and not counted in it. Query tokens are counted in the whole
/// problem, of which the queries at hand may be a shard: see AttentionProblem::q_offset.
struct KeepRule {
  std::int64_t kv_front_tokens = 0;  ///< keep every key block that holds one of the first tokens (0 = none)
  std::int64_t kv_back_tokens = 0;   ///< ... one of the last tokens
  std::int64_t band_tokens =
      -1;  ///< keep block pairs with a token pair |k - q - (kv_tokens - q_tokens of the whole problem)| <= band; -1 = none
  std::int64_t dense_q_front_tokens =
      0;  ///< query blocks that hold one of the first query tokens keep everything
  std::int64_t dense_q_back_tokens = 0;  ///< ... one of the last query tokens
};

/// The hybrid rule of a row: the longer of two prefixes of the order (score descending, index ascending).
struct MaskRule {
  double top_k =
      0.03;  ///< share of key blocks, in [0, 1]; rounded up, so a share never keeps less than asked
  double top_p =
      0.2;  ///< share of softmax mass over pooled scores, in [0, 1]; the block that crosses is kept
  std::int32_t min_blocks = 1;  ///< at least this many blocks by top_k; clamped to the row's candidates
  float const* top_k_of_head =
      nullptr;  ///< optional device array [heads], replaces top_k; clamped to [0, 1], NaN = top_k
  float const* top_p_of_head = nullptr;  ///< optional device array [heads], replaces top_p; likewise
  KeepRule keep;
};

/// What a mask keeps, per (batch, query head): written on the device, [batch, heads], 16-byte aligned.
struct MaskStats {
  std::int64_t kept_pairs = 0;     ///< block pairs kept; sparsity = 1 - kept_pairs / all_pairs
  std::int64_t all_pairs = 0;      ///< q_blocks * kv_blocks, partial blocks counted as whole
  std::int64_t owed_to_both = 0;   ///< pairs that top_k and top_p each ask for
  std::int64_t owed_to_top_k = 0;  ///< pairs that top_k alone asks for
  std::int64_t owed_to_top_p = 0;  ///< pairs that top_p alone asks for
  std::int64_t owed_to_force =
      0;  ///< kept pairs that neither asks for: the keep rule, or a mask of the caller's own
  double pooled_mass =
      0;  ///< mean over query blocks of the softmax mass over *pooled* scores that the mask keeps
};

}  // namespace sparge
