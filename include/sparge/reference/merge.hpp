#pragma once
/// Partial results of attention, over disjoint sets of keys, to one: in f64, on host memory.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "sparge/core/partial.hpp"
#include "sparge/reference/attention.hpp"
#include "sparge/reference/element.hpp"

namespace sparge::reference {

namespace detail {

/// exp(lse_i - lse) of one row, and that lse; 0 for results without keys.
struct MergeWeights {
  std::vector<double> of_partial;
  double lse;
};

inline MergeWeights merge_weights(std::vector<double> const& lses) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  double largest = -infinity, sum = 0;
  for (double lse : lses) largest = std::fmax(largest, lse);
  std::vector<double> weights;
  for (double lse : lses) weights.push_back(lse == -infinity ? 0 : std::exp(lse - largest));
  for (double weight : weights) sum += weight;
  for (double& weight : weights) weight = sum == 0 ? 0 : weight / sum;
  return {weights, largest + std::log(sum)};
}

}  // namespace detail

/// out [batch, heads, q_tokens, head_dim] and lse [batch, heads, q_tokens], contiguous. A row without keys in any partial result is 0
/// with lse -inf; what a partial result has in a row without keys is not read.
template <class T>
Attention merge_partials(AttentionProblem const& p, std::vector<Partial<T>> const& partials) {
  Attention merged;
  for (QueryRow const& row : all_rows(p)) {
    std::int64_t const index = (row.batch * p.heads + row.head) * p.q_tokens + row.token;
    std::vector<double> lses;
    for (Partial<T> const& partial : partials) lses.push_back(to_double(partial.lse[index]));
    detail::MergeWeights const weights = detail::merge_weights(lses);
    std::vector<double> out(static_cast<std::size_t>(p.head_dim), 0.0);
    for (std::size_t i = 0; i < partials.size(); ++i) {
      if (std::isinf(lses[i]) && lses[i] < 0) continue;
      T const* const channels = token_row(partials[i].out, row.batch, row.head, row.token);
      for (std::int64_t c = 0; c < p.head_dim; ++c) out[c] += weights.of_partial[i] * to_double(channels[c]);
    }
    merged.out.insert(merged.out.end(), out.begin(), out.end());
    merged.lse.push_back(weights.lse);
  }
  return merged;
}

}  // namespace sparge::reference
