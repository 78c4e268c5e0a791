#pragma once
/// One warp's share of an f32 accumulator, 16 rows by `columns`. An m16n8 mma.sync result and a warp's quarter of an m64
/// wgmma result hold the same elements in the same lanes, so everything after the product is written once.

#include <cstdint>

#include "sparge/device/convert.cuh"

namespace sparge {

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % 32; }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / 32; }

/// A lane holds two rows, r = 0 and 1, and two neighbouring columns of every group of eight.
template <int columns>
struct Fragment {
  static constexpr int groups = columns / 8;
  static constexpr int rows = 2;

  float value[groups][4];

  static __device__ __forceinline__ int row(int r) { return lane_index() / 4 + 8 * r; }
  static __device__ __forceinline__ int column(int group, int c) {
    return 8 * group + 2 * (lane_index() % 4) + c;
  }

  __device__ __forceinline__ float& at(int r, int group, int c) { return value[group][2 * r + c]; }
  __device__ __forceinline__ float const& at(int r, int group, int c) const {
    return value[group][2 * r + c];
  }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll
      for (int i = 0; i < 4; ++i) value[group][i] = 0;
  }

  /// Multiplies row r by a factor.
  __device__ __forceinline__ void scale_row(int r, float factor) {
#pragma unroll
    for (int group = 0; group < groups; ++group) at(r, group, 0) *= factor, at(r, group, 1) *= factor;
  }

  /// Adds a term to row r.
  __device__ __forceinline__ void shift_row(int r, float term) {
#pragma unroll
    for (int group = 0; group < groups; ++group) at(r, group, 0) += term, at(r, group, 1) += term;
  }

  __device__ __forceinline__ void clear_row(int r) {
#pragma unroll
    for (int group = 0; group < groups; ++group) at(r, group, 0) = at(r, group, 1) = 0;
  }

  /// Columns 16 step .. 16 step + 15, rounded to T, as the A operand of the next product.
  template <class T>
  __device__ __forceinline__ void to_operand(std::uint32_t (&a)[4], int step) const {
    a[0] = pack<T>(value[2 * step][0], value[2 * step][1]);
    a[1] = pack<T>(value[2 * step][2], value[2 * step][3]);
    a[2] = pack<T>(value[2 * step + 1][0], value[2 * step + 1][1]);
    a[3] = pack<T>(value[2 * step + 1][2], value[2 * step + 1][3]);
  }
};

/// Reduces over the four lanes that share a row.
template <class Combine>
__device__ __forceinline__ float reduce_row(float value, Combine combine) {
  value = combine(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return combine(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/// The largest value of row r over all lanes; ignores NaN.
template <int columns>
__device__ __forceinline__ float row_maximum(Fragment<columns> const& values, int r) {
  float maximum = fmaxf(values.at(r, 0, 0), values.at(r, 0, 1));
#pragma unroll
  for (int group = 1; group < Fragment<columns>::groups; ++group)
    maximum = fmaxf(maximum, fmaxf(values.at(r, group, 0), values.at(r, group, 1)));
  return reduce_row(maximum, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace sparge
