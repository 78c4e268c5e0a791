#pragma once
/// One block of keys and values, widened once and laid out so that the inner loops run over adjacent numbers.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sparge/reference/element.hpp"

namespace sparge::reference {

/// Inner loops have this fixed length: compilers then vectorise them without being asked to reorder sums.
inline constexpr std::int64_t lane_count = 16;

constexpr std::int64_t round_up_to_lanes(std::int64_t n) {
  return (n + lane_count - 1) / lane_count * lane_count;
}

/// out[i] += a * x[i] for i in [0, n); n is a multiple of lane_count.
template <class Real>
void add_scaled(Real* __restrict out, Real a, Real const* __restrict x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += lane_count)
    for (std::int64_t lane = 0; lane < lane_count; ++lane) out[i + lane] += a * x[i + lane];
}

/// Widens one token's channels, padded with zeros to a whole number of lanes.
template <class Real, class T>
void widen_row(T const* row, std::int64_t channels, Real* wide) {
  std::fill(wide, wide + round_up_to_lanes(channels), Real{0});
  for (std::int64_t c = 0; c < channels; ++c) wide[c] = static_cast<Real>(to_double(row[c]));
}

/// The tokens of one key block: keys by channel, values by token.
template <class Real>
class KeyBlock {
public:
  KeyBlock(AttentionProblem const& p)
      : channels_(p.head_dim),
        width_(round_up_to_lanes(p.kv_block)),
        row_(round_up_to_lanes(p.head_dim)),
        keys_(static_cast<std::size_t>(row_ * width_)),
        values_(static_cast<std::size_t>(row_ * width_)) {}

  template <class K, class V>
  void load(TensorView<K> const& k, TensorView<V> const& v, std::int64_t batch, std::int64_t kv_head,
            TokenRange range) {
    tokens_ = range.size();
    std::fill(keys_.begin(), keys_.end(), Real{0});
    for (std::int64_t j = 0; j < tokens_; ++j) {
      K const* const key = token_row(k, batch, kv_head, range.begin + j);
      for (std::int64_t c = 0; c < channels_; ++c)
        keys_[static_cast<std::size_t>(c * width_ + j)] = static_cast<Real>(to_double(key[c]));
      widen_row(token_row(v, batch, kv_head, range.begin + j), channels_, values_.data() + j * row_);
    }
  }

  std::int64_t tokens() const { return tokens_; }
  std::int64_t width() const { return width_; }
  Real const* value(std::int64_t j) const { return values_.data() + j * row_; }

  /// logits[j] = scale * <query, key j>, the products summed in channel order. `logits` holds width() numbers.
  void logits(Real const* query, Real scale, Real* logits) const {
    std::fill(logits, logits + width_, Real{0});
    for (std::int64_t c = 0; c < channels_; ++c)
      add_scaled(logits, query[c], keys_.data() + c * width_, width_);
    for (std::int64_t j = 0; j < tokens_; ++j) logits[j] *= scale;
  }

private:
  std::int64_t channels_, width_, row_, tokens_ = 0;
  std::vector<Real> keys_;    // [channels, width]
  std::vector<Real> values_;  // [width, row], tokens past the last are not read
};

}  // namespace sparge::reference
