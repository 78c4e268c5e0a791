#pragma once
/// What ranks hold and send: tensors on the host, of one batch item, and the results of the calls.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sparge/sparge.hpp"

namespace context_parallel {

using sparge::bfloat16;
using MaskWords = std::vector<std::uint32_t>;

/// Half-open range of an axis.
struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

/// Contiguous [heads, rows, channels]; rows are tokens or blocks.
template <class T>
struct Tensor {
  std::int64_t heads = 0, rows = 0, channels = 0;
  std::vector<T> values;

  Tensor() = default;
  Tensor(std::int64_t h, std::int64_t r, std::int64_t c)
      : heads(h), rows(r), channels(c), values(std::size_t(h * r * c)) {}

  T* row(std::int64_t head, std::int64_t index) { return values.data() + (head * rows + index) * channels; }
  T const* row(std::int64_t head, std::int64_t index) const {
    return values.data() + (head * rows + index) * channels;
  }
  sparge::TensorView<T const> view() const {
    return sparge::contiguous_bhnd(values.data(), 1, heads, rows, channels);
  }
  Tensor part(Range range) const {
    Tensor result(heads, range.size(), channels);
    for (std::int64_t head = 0; head < heads; ++head)
      std::copy_n(row(head, range.begin), range.size() * channels, result.row(head, 0));
    return result;
  }
  /// Rows `range` become those of `from`.
  void put(Range range, Tensor const& from) {
    for (std::int64_t head = 0; head < heads; ++head)
      std::copy_n(from.row(head, 0), range.size() * channels, row(head, range.begin));
  }
};

struct Inputs {
  Tensor<bfloat16> q, k, v, grad_out;
};

/// Means of blocks.
struct Pooled {
  Tensor<float> q, k;
};

struct Attended {
  Tensor<bfloat16> out;
  Tensor<float> lse;  ///< one channel
};

struct Gradients {
  Tensor<bfloat16> q, k, v;
};

/// What backward is given beside the inputs: `attended` is of all keys.
struct BackwardInputs {
  Inputs inputs;
  Attended attended;
  MaskWords mask;
};

/// Where the calls run. Each takes a problem of a whole or of a shard.
class Backend {
public:
  virtual ~Backend() = default;
  virtual Pooled pool(sparge::AttentionProblem const&, Tensor<bfloat16> const& q,
                      Tensor<bfloat16> const& k) = 0;
  virtual MaskWords select(sparge::AttentionProblem const&, sparge::MaskRule const&, Pooled const&) = 0;
  virtual MaskWords slice(sparge::AttentionProblem const&, MaskWords const&, sparge::BlockRange q,
                          sparge::BlockRange kv) = 0;
  virtual Attended forward(sparge::AttentionProblem const&, Inputs const&, MaskWords const&) = 0;
  virtual Attended merge(sparge::AttentionProblem const&, std::vector<Attended> const&) = 0;
  virtual Gradients backward(sparge::AttentionProblem const&, BackwardInputs const&) = 0;
};

}  // namespace context_parallel
