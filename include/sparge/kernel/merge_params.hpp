#pragma once
/// What the merging kernel is given, and its launch. Host code sees only this.

#include <driver_types.h>

#include <cstdint>

#include "sparge/core/checked.hpp"
#include "sparge/core/partial.hpp"
#include "sparge/core/tensor_view.hpp"

namespace sparge {

template <class T>
struct MergeParams {
  Partial<T> partials[most_partials];
  Partial<float> running;  ///< lse null where there is none
  TensorView<T> out;
  TensorView<float> running_out;  ///< either output is null where it is not asked for
  float* lse = nullptr;           ///< may be null
  std::int64_t heads = 0;
  std::int32_t q_tokens = 0, count = 0, head_dim = 0;
  std::uint32_t head_blocks = 0;  ///< thread blocks of a head
};

static_assert(sizeof(MergeParams<float>) <= 4096, "parameters of a kernel");

namespace merging {

/// A lane takes this many channels of a row.
inline constexpr std::int32_t threads = 256, lane_channels = 8;

/// Rows of one head that a thread block merges.
constexpr std::int32_t block_rows(std::int32_t head_dim) { return threads / (head_dim / lane_channels); }

/// Thread blocks of a head.
constexpr std::int64_t head_blocks(std::int64_t q_tokens, std::int32_t head_dim) {
  return ceil_div(q_tokens, block_rows(head_dim));
}

}  // namespace merging

/// Defined in kernel/merge_partials.cuh; T is bfloat16, float16 or float.
template <class T>
cudaError_t launch_merge_partials(MergeParams<T> const& params, std::int64_t all_heads,
                                  cudaStream_t stream) noexcept;

}  // namespace sparge
