#pragma once
/// Rows that are made for one case of the rule.

#include <cmath>
#include <vector>

#include "op/mask_runs.hpp"

namespace sparge::test {

/// Rows whose scores are those given: channel 0 alone counts, scale 1.
inline PooledInputs with_scores(std::vector<double> const& scores, std::int64_t q_tokens = 1) {
  AttentionProblem p{1, 1, 1, q_tokens, 64 * static_cast<std::int64_t>(scores.size()), 64};
  p.scale = 1;
  PooledInputs x(p);
  fill(x.q, [](auto, auto, auto, auto c) { return c == 0 ? 1.0 : 0.0; });
  fill(x.k, [&](auto, auto, auto j, auto c) { return c == 0 ? scores[j] : 0.0; });
  return x;
}

inline PooledInputs with_masses(std::vector<double> const& masses) {
  std::vector<double> scores;
  for (double mass : masses) scores.push_back(std::log(mass));
  return with_scores(scores);
}

inline PooledInputs gaussian_row(std::int64_t kv_blocks, std::int64_t q_tokens = 100) {
  return make_pooled({1, 2, 1, q_tokens, 64 * kv_blocks, 64}, PooledKind::gaussian, 17);
}

inline std::vector<bool> only(std::int64_t blocks, std::vector<std::int64_t> const& kept) {
  std::vector<bool> bits(static_cast<std::size_t>(blocks), false);
  for (std::int64_t j : kept) bits[static_cast<std::size_t>(j)] = true;
  return bits;
}

}  // namespace sparge::test
