#pragma once
/// The mask rule for one block or one row, as plain functions: what the selecting kernels do between loads and stores.

#include <cmath>
#include <cstdint>
#include <cstring>

#include "sparge/core/mask_rule.hpp"
#include "sparge/device/math.cuh"

namespace sparge {

/// An integer that orders as scores do: NaN lowest, then -inf upwards, -0 = +0.
__host__ __device__ inline std::uint32_t ranking_key(float score) {
  float const unsigned_zero = score + 0.0f;
  std::uint32_t bits;
  std::memcpy(&bits, &unsigned_zero, sizeof bits);
  std::uint32_t const all_if_negative = 0u - (bits >> 31);
  return score != score ? 0 : bits ^ (all_if_negative | 0x80000000u);
}

/// The score of a ranking key; NaN for key 0.
__host__ __device__ inline float score_of(std::uint32_t key) {
  std::uint32_t const bits = key == 0 ? 0x7fffffffu : key >> 31 ? key & 0x7fffffffu : ~key;
  float score;
  std::memcpy(&score, &bits, sizeof score);
  return score;
}

/// exp(score - max), to 2^-22 on the device; NaN where both are infinite.
__host__ __device__ inline float softmax_weight(float score, float max) {
#ifdef __CUDA_ARCH__
  return exp2_fast((score - max) * log2_e);
#else
  return expf(score - max);
#endif
}

/// Softmax mass relative to that of the row's largest score, in units of 2^-31. Sums of it do not depend on their order.
/// Blocks that attain an infinite maximum share equally; NaN has none.
__host__ __device__ inline std::uint32_t softmax_mass(float score, float max) {
  if (score != score) return 0;
  float const weight = score == max ? 1.0f : softmax_weight(score, max);
  return static_cast<std::uint32_t>(rintf(weight * 2147483648.0f));
}

/// The same, in fewer instructions, where `max` is finite and not less than the score; NaN has no mass.
__host__ __device__ inline std::uint32_t finite_softmax_mass(float score, float max) {
#ifdef __CUDA_ARCH__
  return __float2uint_rn(softmax_weight(score, max) * 2147483648.0f);  // 0 of NaN
#else
  return softmax_mass(score, max);
#endif
}

/// The share in effect for a head.
__host__ __device__ inline double share_of_head(double scalar, float const* of_head, std::int64_t head) {
  if (of_head == nullptr) return scalar;
  float const share = of_head[head];
  if (share != share) return scalar;
  return share < 0 ? 0.0 : share > 1 ? 1.0 : share;
}

/// How far a prefix of the order must reach: at least so many blocks and at least so much mass.
struct PrefixGoal {
  std::int64_t blocks;
  std::uint64_t mass;
};

/// n_k. A share never keeps less than asked; 1e-3 absorbs the rounding of a float share. The fused multiply-add is spelled out:
/// left to compilers, some would fuse and some would not, and a product next to a whole number would tell.
__host__ __device__ inline PrefixGoal top_k_goal(double top_k, std::int64_t min_blocks, std::int64_t blocks) {
  std::int64_t const share = static_cast<std::int64_t>(ceil(fma(top_k, static_cast<double>(blocks), -1e-3)));
  std::int64_t const least = share > min_blocks ? share : min_blocks;
  return {least < blocks ? least : blocks, 0};
}

/// The shortest prefix with share `top_p` of the row's mass; nothing where every score is NaN.
__host__ __device__ inline PrefixGoal top_p_goal(double top_p, std::uint64_t row_mass, std::int64_t blocks) {
  if (top_p <= 0 || row_mass == 0) return {0, 0};
  if (top_p >= 1) return {blocks, 0};
  return {0, static_cast<std::uint64_t>(ceil(top_p * static_cast<double>(row_mass)))};
}

/// The longer of two prefixes reaches both goals.
__host__ __device__ inline PrefixGoal both_goals(PrefixGoal a, PrefixGoal b) {
  return {a.blocks > b.blocks ? a.blocks : b.blocks, a.mass > b.mass ? a.mass : b.mass};
}

/// Where a prefix of the order ends: every key above `key` is in it, and the first `ties` blocks of those equal to it.
struct PrefixEnd {
  std::uint32_t key;
  std::int64_t ties;
};

/// Blocks and mass of the keys at or above some key.
struct Tally {
  std::int64_t blocks;
  std::uint64_t mass;

  __host__ __device__ bool reaches(PrefixGoal goal) const {
    return blocks >= goal.blocks && mass >= goal.mass;
  }
};

/// How many of the blocks with the last key of a prefix it takes to reach `goal`; `reached` counts them, `above` does not.
__host__ __device__ inline std::int64_t count_ties(PrefixGoal goal, Tally reached, Tally above) {
  std::int64_t const by_blocks = goal.blocks > above.blocks ? goal.blocks - above.blocks : 0;
  if (goal.mass <= above.mass) return by_blocks;
  std::uint64_t const each =
      (reached.mass - above.mass) / static_cast<std::uint64_t>(reached.blocks - above.blocks);
  std::int64_t const by_mass = static_cast<std::int64_t>((goal.mass - above.mass + each - 1) / each);
  return by_blocks > by_mass ? by_blocks : by_mass;
}

/// Finds the end of the shortest prefix that reaches `goal`, by one bit of the key a step: `key` is always the largest
/// multiple of `bit` whose keys at or above reach the goal. `row.tally(key)` counts keys >= key, `all` is that of key 0, and
/// `row.largest_up_to(key)` is the largest key <= key. The goal is within reach: all of a row reaches it.
template <class Row>
__host__ __device__ PrefixEnd find_prefix_end(Row const& row, Tally all, PrefixGoal goal) {
  std::uint32_t key = 0;
  Tally reached = all, above{0, 0};  // of keys >= key, and of keys beyond the interval that holds the end
  std::uint32_t bit = 1u << 31;
  for (; bit != 0 && reached.blocks - above.blocks > 1; bit >>= 1) {
    Tally const upper = row.tally(key | bit);
    if (upper.reaches(goal))
      key |= bit, reached = upper;
    else
      above = upper;
  }
  // An interval [key, key + 2 bit) with at most one block ends the search early; its key is still to be found.
  if (bit != 0) key = row.largest_up_to(key + (2 * bit - 1));
  return {key, count_ties(goal, reached, above)};
}

/// Token geometry of a block pair, for the keep rule.
struct BlockGrid {
  std::int64_t q_tokens, kv_tokens;
  std::int32_t q_block, kv_block;
};

/// The part of the keep rule that a query block decides alone.
__host__ __device__ inline bool keeps_every_block(KeepRule const& keep, BlockGrid const& grid,
                                                  std::int64_t q_index) {
  std::int64_t const first = q_index * grid.q_block, end = first + grid.q_block;
  std::int64_t const valid_end = end < grid.q_tokens ? end : grid.q_tokens;
  return first < keep.dense_q_front_tokens || valid_end > grid.q_tokens - keep.dense_q_back_tokens;
}

/// Whether the keep rule forces the pair whatever its score.
__host__ __device__ inline bool is_forced_pair(KeepRule const& keep, BlockGrid const& grid,
                                               std::int64_t q_index, std::int64_t kv_index) {
  std::int64_t const q = q_index * grid.q_block, k = kv_index * grid.kv_block;
  std::int64_t const q_end = q + grid.q_block < grid.q_tokens ? q + grid.q_block : grid.q_tokens;
  std::int64_t const k_end = k + grid.kv_block < grid.kv_tokens ? k + grid.kv_block : grid.kv_tokens;
  if (k < keep.kv_front_tokens || k_end > grid.kv_tokens - keep.kv_back_tokens) return true;
  if (keep.band_tokens < 0) return false;
  std::int64_t const diagonal = grid.kv_tokens - grid.q_tokens;
  std::int64_t const least = k - (q_end - 1) - diagonal, most = k_end - 1 - q - diagonal;
  return least <= keep.band_tokens && most >= -keep.band_tokens;
}

}  // namespace sparge
