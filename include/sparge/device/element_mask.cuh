#pragma once
/// Elements of a kept tile that do not exist, keys past the last token, and queries that keep no key.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

template <int columns>
__device__ __forceinline__ void clear_column(Fragment<columns>& values, int group, int c) {
  values.at(0, group, c) = 0;
  values.at(1, group, c) = 0;
}

/// Sets the logits of columns at or past `valid_columns` to -inf.
template <int columns>
__device__ __forceinline__ void mask_tail(Fragment<columns>& logits, int valid_columns) {
#pragma unroll
  for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (Fragment<columns>::column(group, c) < valid_columns) continue;
      logits.at(0, group, c) = -infinity();
      logits.at(1, group, c) = -infinity();
    }
}

/// Sets columns at or past `valid_columns` to 0.
template <int columns>
__device__ __forceinline__ void clear_tail(Fragment<columns>& values, int valid_columns) {
#pragma unroll
  for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      if (Fragment<columns>::column(group, c) >= valid_columns) clear_column(values, group, c);
}

}  // namespace sparge
