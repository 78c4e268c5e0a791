#pragma once
/// The tokens of one block, widened once and laid out so that the inner loops run over adjacent numbers.

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

/// Tokens as rows of `stride()` channels, padded with zeros to whole lanes: for weighted sums of tokens.
template <class Real>
class TokenRows {
public:
  explicit TokenRows(std::int64_t channels) : channels_(channels), stride_(round_up_to_lanes(channels)) {}

  void resize(std::size_t count) { rows_.assign(count * stride_, Real{0}); }

  template <class T>
  void set(std::size_t row, T const* token) {
    for (std::int64_t c = 0; c < channels_; ++c)
      rows_[row * stride_ + c] = static_cast<Real>(to_double(token[c]));
  }

  template <class T>
  void load(TensorView<T> const& x, std::int64_t batch, std::int64_t head, TokenRange range) {
    resize(range.size());
    for (std::int64_t j = 0; j < range.size(); ++j) set(j, token_row(x, batch, head, range.begin + j));
  }

  Real* row(std::size_t j) { return rows_.data() + j * stride_; }
  Real const* row(std::size_t j) const { return rows_.data() + j * stride_; }
  std::int64_t stride() const { return stride_; }

private:
  std::int64_t channels_, stride_;
  std::vector<Real> rows_;
};

/// Tokens as columns: for dot products of one vector with every token of a block.
template <class Real>
class TokenColumns {
public:
  TokenColumns(std::int64_t channels, std::int64_t block)
      : channels_(channels), width_(round_up_to_lanes(block)), columns_(channels * width_) {}

  template <class T>
  void load(TensorView<T> const& x, std::int64_t batch, std::int64_t head, TokenRange range) {
    std::fill(columns_.begin(), columns_.end(), Real{0});
    for (std::int64_t j = 0; j < range.size(); ++j) {
      T const* const token = token_row(x, batch, head, range.begin + j);
      for (std::int64_t c = 0; c < channels_; ++c)
        columns_[c * width_ + j] = static_cast<Real>(to_double(token[c]));
    }
  }

  /// dots[j] = scale * <x, token j>, the products summed in channel order. `dots` holds width() numbers.
  void dot(Real const* x, Real scale, Real* dots) const {
    std::fill(dots, dots + width_, Real{0});
    for (std::int64_t c = 0; c < channels_; ++c) add_scaled(dots, x[c], columns_.data() + c * width_, width_);
    for (std::int64_t j = 0; j < width_; ++j) dots[j] *= scale;
  }

  std::int64_t width() const { return width_; }

private:
  std::int64_t channels_, width_;
  std::vector<Real> columns_;
};

}  // namespace sparge::reference
