#pragma once
/// What top_p is sought for, and what was found.

#include <cstdint>

namespace sparge {

enum class CalibrationGoal : std::int32_t {
  sparsity,   ///< the largest top_p whose masks are at least this sparse
  kept_mass,  ///< the smallest top_p whose masks keep at least this share of the pooled softmax mass
};

enum class CalibrationScope : std::int32_t {
  each_head,  ///< every head meets the target by a top_p of its own
  all_heads,  ///< one top_p for all heads, which meet the target together
};

struct CalibrationTarget {
  CalibrationGoal goal = CalibrationGoal::sparsity;
  double value = 0.95;  ///< in [0, 1]: a sparsity or a mass
  CalibrationScope scope = CalibrationScope::each_head;
};

/// What the found top_p keeps of a query head, and what either rule would keep without the other: written on the device, [heads],
/// 16-byte aligned. Pairs and masses are of all batch items, and with the keep rule; masses are means over query blocks.
struct Calibration {
  std::int64_t kept_pairs =
      0;  ///< block pairs that the whole rule keeps; sparsity = 1 - kept_pairs / all_pairs
  std::int64_t all_pairs = 0;    ///< batch * q_blocks * kv_blocks, partial blocks counted as whole
  std::int64_t top_k_pairs = 0;  ///< without top_p
  std::int64_t top_p_pairs = 0;  ///< without top_k and min_blocks
  double kept_mass = 0;          ///< softmax mass over *pooled* scores that the whole rule keeps
  double top_k_mass = 0, top_p_mass = 0;
  float top_p = 0;       ///< as in top_p_of_head: a multiple of 2^-24
  std::int32_t met = 0;  ///< 1 = the target is met; 0 = no top_p meets it, and this is the nearest
};

}  // namespace sparge
