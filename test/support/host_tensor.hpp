#pragma once
/// A host tensor that owns its storage and may be laid out in any way.

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sparge/core/problem.hpp"
#include "sparge/core/tensor_view.hpp"
#include "sparge/reference/element.hpp"

namespace sparge::test {

using Shape = std::array<std::int64_t, 4>;  // batch, head, token, channel

/// Storage orders that callers really have.
enum class Layout {
  bhnd,         ///< contiguous [batch, head, token, channel]
  bnhd,         ///< contiguous [batch, token, head, channel]
  padded_rows,  ///< [batch, head, token, channel + 8], and 3 more tokens a head
  fused_qkv,    ///< one third of [batch, token, 3, head, channel]
};

inline Shape strides_of(Layout layout, Shape const& s) {
  switch (layout) {
    case Layout::bhnd:
      return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
    case Layout::bnhd:
      return {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1};
    case Layout::padded_rows: {
      std::int64_t const row = s[3] + 8, head = (s[2] + 3) * row;
      return {s[1] * head, head, row, 1};
    }
    case Layout::fused_qkv:
      return {s[2] * 3 * s[1] * s[3], s[3], 3 * s[1] * s[3], 1};
  }
  return {};
}

/// Storage starts as bytes 0xFF, a NaN in every element type, so that padding which is read shows.
template <class T>
class HostTensor {
public:
  HostTensor() = default;
  explicit HostTensor(Shape const& shape, Layout layout = Layout::bhnd)
      : HostTensor(shape, strides_of(layout, shape)) {}
  HostTensor(Shape const& shape, Shape const& stride) : shape_(shape), stride_(stride) {
    std::int64_t last = 0;
    for (int axis = 0; axis < 4; ++axis) {
      if (shape[axis] == 0) return;
      last += (shape[axis] - 1) * stride[axis];
    }
    storage_.resize(static_cast<std::size_t>(last + 1));
    poison();
  }

  void poison() { std::memset(static_cast<void*>(storage_.data()), 0xFF, storage_.size() * sizeof(T)); }

  T& at(std::int64_t batch, std::int64_t head, std::int64_t token, std::int64_t channel) {
    return storage_[offset(batch, head, token, channel)];
  }
  T const& at(std::int64_t batch, std::int64_t head, std::int64_t token, std::int64_t channel) const {
    return storage_[offset(batch, head, token, channel)];
  }

  TensorView<T> view() { return view_of(storage_.data()); }
  TensorView<T const> view() const { return view_of(storage_.data()); }
  TensorView<T const> const_view() const { return view(); }
  /// The same shape and strides over other memory, a device copy of `storage()` for instance.
  template <class U>
  TensorView<U> view_of(U* data) const {
    return {
        data, {shape_[0], shape_[1], shape_[2], shape_[3]}, {stride_[0], stride_[1], stride_[2], stride_[3]}};
  }

  /// Every byte that a device copy needs, padding included.
  std::vector<T>& storage() { return storage_; }
  std::vector<T> const& storage() const { return storage_; }
  Shape const& shape() const { return shape_; }
  Shape const& stride() const { return stride_; }
  std::int64_t elements() const { return shape_[0] * shape_[1] * shape_[2] * shape_[3]; }

  /// visit(batch, head, token, channel), channels fastest.
  template <class Visit>
  void for_each_index(Visit visit) const {
    for (std::int64_t b = 0; b < shape_[0]; ++b)
      for (std::int64_t h = 0; h < shape_[1]; ++h)
        for (std::int64_t n = 0; n < shape_[2]; ++n)
          for (std::int64_t c = 0; c < shape_[3]; ++c) visit(b, h, n, c);
  }

  /// Elements in logical order, as f64.
  std::vector<double> values() const {
    std::vector<double> all;
    all.reserve(static_cast<std::size_t>(elements()));
    for_each_index([&](auto... index) { all.push_back(reference::to_double(at(index...))); });
    return all;
  }

private:
  std::size_t offset(std::int64_t batch, std::int64_t head, std::int64_t token, std::int64_t channel) const {
    return static_cast<std::size_t>(batch * stride_[0] + head * stride_[1] + token * stride_[2] +
                                    channel * stride_[3]);
  }

  Shape shape_{}, stride_{};
  std::vector<T> storage_;
};

/// The same elements in another layout.
template <class T>
HostTensor<T> relaid(HostTensor<T> const& from, Layout layout) {
  HostTensor<T> to(from.shape(), layout);
  from.for_each_index([&](auto... index) { to.at(index...) = from.at(index...); });
  return to;
}

inline Shape q_shape(AttentionProblem const& p) { return {p.batch, p.heads, p.q_tokens, p.head_dim}; }
inline Shape kv_shape(AttentionProblem const& p) { return {p.batch, p.kv_heads, p.kv_tokens, p.head_dim}; }

}  // namespace sparge::test
