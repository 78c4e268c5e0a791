#pragma once
/// The result of attention over a part of the keys.

#include <cstdint>

#include "sparge/core/tensor_view.hpp"

namespace sparge {

/// What forward wrote for a shard of the keys, or an earlier merge for several. Device memory.
template <class T>
struct Partial {
  TensorView<T const> out;  ///< [batch, heads, q_tokens, head_dim], any strides; not read where lse is -inf
  float const* lse =
      nullptr;  ///< contiguous [batch, heads, q_tokens], 16-byte aligned; -inf: no key was kept
};

/// Partial results that one call merges at most, besides a running one. They travel in the parameters of the kernel, 2 KB of the 4 KB
/// that every architecture takes.
inline constexpr std::int32_t most_partials = 16;

}  // namespace sparge
