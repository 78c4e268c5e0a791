#pragma once
/// Mean of the valid tokens of each block, in f64.

#include <cstdint>
#include <vector>

#include "sparge/reference/element.hpp"
#include "sparge/reference/parallel.hpp"

namespace sparge::reference {

/// Pools view [batch, heads, tokens, channels] to contiguous [batch, heads, ceil(tokens / block), channels].
template <class T>
std::vector<double> pool(TensorView<T> const& x, std::int64_t block, RunOptions const& options = {}) {
  std::int64_t const heads = x.shape[1], tokens = x.shape[2], channels = x.shape[3];
  std::int64_t const blocks = (tokens + block - 1) / block;
  std::vector<double> pooled(static_cast<std::size_t>(x.shape[0] * heads * blocks * channels), 0.0);
  for_each_piece(x.shape[0] * heads * blocks, options, [&] {
    return [&](std::int64_t piece) {
      std::int64_t const batch = piece / blocks / heads, head = piece / blocks % heads;
      TokenRange const range = block_tokens(piece % blocks, block, tokens);
      double* const mean = pooled.data() + piece * channels;
      for (std::int64_t token = range.begin; token < range.end; ++token) {
        T const* const row = token_row(x, batch, head, token);
        for (std::int64_t c = 0; c < channels; ++c) mean[c] += to_double(row[c]);
      }
      for (std::int64_t c = 0; c < channels; ++c) mean[c] /= static_cast<double>(range.size());
    };
  });
  return pooled;
}

/// Pooled vectors as the library stores them.
inline std::vector<float> to_f32(std::vector<double> const& values) {
  return std::vector<float>(values.begin(), values.end());
}

}  // namespace sparge::reference
