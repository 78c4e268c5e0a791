#pragma once
/// A borrowed tensor on the device. Strides say how it is laid out, so there is no layout enum.

#include <cstdint>
#include <type_traits>

namespace sparge {

/// A borrowed tensor in logical order (batch, head, token, channel).
///
/// `data` is 16-byte aligned device memory. `stride` counts elements; every stride in bytes is a multiple of 16
/// except the channel stride, which is 1. A stride of 0 (broadcast) is legal for inputs, never for outputs.
/// An aggregate: `TensorView<bfloat16>{ptr, {B, H, N, D}, {H*N*D, N*D, D, 1}}`.
template <class T>
struct TensorView {
  T* data = nullptr;
  std::int64_t shape[4] = {0, 0, 0, 0};   ///< batch, head, token, channel
  std::int64_t stride[4] = {0, 0, 0, 1};  ///< in elements, same order

  /// A view that may write converts to one that only reads.
  template <class U = T, class = std::enable_if_t<std::is_same_v<U, T> && !std::is_const_v<U>>>
  operator TensorView<U const>() const {
    TensorView<U const> view{data, {}, {}};
    for (int axis = 0; axis < 4; ++axis) view.shape[axis] = shape[axis], view.stride[axis] = stride[axis];
    return view;
  }
};

/// Contiguous (batch, head, token, channel) storage: the layout [B, H, N, D].
template <class T>
TensorView<T> contiguous_bhnd(T* data, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                              std::int64_t channels) {
  return {
      data, {batch, heads, tokens, channels}, {heads * tokens * channels, tokens * channels, channels, 1}};
}

/// Contiguous (batch, token, head, channel) storage, the layout [B, N, H, D], seen in logical order.
template <class T>
TensorView<T> contiguous_bnhd(T* data, std::int64_t batch, std::int64_t heads, std::int64_t tokens,
                              std::int64_t channels) {
  return {data, {batch, heads, tokens, channels}, {tokens * heads * channels, channels, heads * channels, 1}};
}

}  // namespace sparge
