#pragma once
/// What the demo runs, on either device, and what comes back.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "sparge/sparge.hpp"

namespace demo {

using sparge::float16;

/// Contiguous q [batch, heads, q_tokens, head_dim], k and v [batch, kv_heads, kv_tokens, head_dim], on the host.
struct AttentionInput {
  sparge::AttentionProblem problem;
  sparge::MaskRule rule;
  std::vector<float16> q, k, v;
};

/// Output rows [rows, head_dim] and the natural logarithm of each row's softmax sum.
struct AttentionRows {
  std::vector<float> out, lse;
  double milliseconds = 0;
};

struct AttentionRun {
  std::string device;
  std::vector<std::uint32_t> mask;
  std::vector<sparge::MaskStats> stats;  ///< [batch, heads]
  double mask_milliseconds = 0;
  AttentionRows sparse;  ///< every row
  std::vector<std::int64_t>
      sample;          ///< the rows, as [batch, heads, q_tokens] indices, that full attention was run for
  AttentionRows full;  ///< those rows

  bool full_is_whole() const { return sample.size() == sparse.lse.size(); }
};

/// The statistics of all heads together.
inline sparge::MaskStats total(std::vector<sparge::MaskStats> const& heads) {
  sparge::MaskStats sum;
  for (sparge::MaskStats const& s : heads) {
    sum.kept_pairs += s.kept_pairs;
    sum.all_pairs += s.all_pairs;
    sum.owed_to_both += s.owed_to_both;
    sum.owed_to_top_k += s.owed_to_top_k;
    sum.owed_to_top_p += s.owed_to_top_p;
    sum.owed_to_force += s.owed_to_force;
    sum.pooled_mass += s.pooled_mass / double(heads.size());
  }
  return sum;
}

/// Mean over the sampled rows of exp(lse_sparse - lse_full): the softmax mass that the mask keeps.
inline double kept_mass(AttentionRun const& run) {
  double sum = 0;
  for (std::size_t i = 0; i < run.sample.size(); ++i)
    sum += std::exp(double(run.sparse.lse[std::size_t(run.sample[i])]) - double(run.full.lse[i]));
  return sum / double(run.sample.size());
}

/// |sparse - full| / |full| over the sampled rows, Euclidean.
inline double relative_error(AttentionRun const& run, std::int64_t head_dim) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < run.sample.size(); ++i)
    for (std::int64_t c = 0; c < head_dim; ++c) {
      double const full = run.full.out[i * head_dim + c];
      double const sparse = run.sparse.out[std::size_t(run.sample[i] * head_dim + c)];
      difference += (sparse - full) * (sparse - full);
      size += full * full;
    }
  return std::sqrt(difference / size);
}

}  // namespace demo
