#pragma once
/// Softmax over columns that arrive tile by tile, without the maximum of every tile. For the two rows that a lane holds.

#include <type_traits>

#include "sparge/core/element.hpp"
#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// Weights are exp2(logit * scale_log2 - reference), where the reference of a row is the maximum of its first tile. A later
/// tile may exceed it: weights are then more than 1, which costs no precision as long as nothing overflows. Where a lane's sum
/// over one tile exceeds `largest_sum` of the element type, its warp moves to the maximum of that tile (`renormalise()`), so that no
/// weight ever exceeds `largest_sum`, which the type holds, and the sum of 2^31 of them is finite.
///
/// What that cannot save is found at the end of the row by `needs_exact()`, for OnlineSoftmax to compute again: a weight that
/// overflowed f32 within one tile, a first tile without a finite logit, NaN, and references so large that the weight of the
/// reference itself is no longer 1 (see OnlineSoftmax).
class GuardedSoftmax {
public:
  /// The row's first tile. Turns logits into weights. `take(i)` is called when columns 16 i .. 16 i + 15 are done.
  template <int columns, class Take>
  __device__ __forceinline__ void first(Fragment<columns>& logits, float scale_log2, Take take) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float const maximum = row_maximum(logits, r);
      reference_[r] = maximum == -infinity() ? 0 : __fmul_rn(maximum, scale_log2);
      sum_[r] = 0;
    }
    weigh(logits, scale_log2, take);
  }

  /// A later tile. Returns the larger of the two rows' sums over this lane's columns.
  template <int columns, class Take>
  __device__ __forceinline__ float next(Fragment<columns>& logits, float scale_log2, Take take) {
    return weigh(logits, scale_log2, take);
  }

  /// Whether, the same for all lanes, renormalise() must follow a tile with that largest sum, of weights that T is to hold.
  template <class T>
  static __device__ __forceinline__ bool has_grown(float largest) {
    return __any_sync(all_lanes, largest > largest_sum<T>);
  }

  /// Keeps the compiler from moving the instructions that make `sum`, which is never negative, below a wait that follows: it
  /// does not know that a wait takes time, and would leave nothing to run beside the product that is waited for. A warp
  /// barrier whose mask is all lanes, which it cannot know.
  static __device__ __forceinline__ void finish_before_wait(float sum) {
    asm volatile("bar.warp.sync %0;" ::"r"(~(__float_as_int(sum) >> 31)) : "memory");
  }

  /// Takes the largest weight of the tile as the new reference in rows where it exceeds 1. The weight becomes 1 to a unit in
  /// the last place of f32, which rounds to 1 in the element type: a row with one winner is exact.
  template <int columns, int channels>
  __device__ __forceinline__ void renormalise(Fragment<columns>& weights, Fragment<channels>& out) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float const largest = fmaxf(row_maximum(weights, r), 1);
      float const factor = reciprocal_fast(largest);
      reference_[r] += log2_fast(largest);
      sum_[r] *= factor;
      weights.scale_row(r, factor);
      out.scale_row(r, factor);
    }
  }

  /// Sum of a row's weights over all lanes.
  __device__ __forceinline__ float row_sum(int r) const {
    return reduce_row(sum_[r], [](float a, float b) { return a + b; });
  }

  /// Whether row r has to be computed again by maximum tracking. Written so that a NaN needs it.
  __device__ __forceinline__ bool needs_exact(int r, float row_sum) const {
    constexpr float largest_reference =
        2048;  // 2^-13 off, and exp2 of that rounds to 1 in every element type
    bool const is_safe = row_sum >= 0.5f && row_sum < 1e30f && fabsf(reference_[r]) <= largest_reference;
    return !is_safe;
  }

  /// Natural logarithm of the sum of exp of scaled logits.
  __device__ __forceinline__ float log_sum_exp(int r, float row_sum) const {
    return (reference_[r] + log2f(row_sum)) * ln_2;
  }

  /// log2 of what the weights of row r are multiples of.
  __device__ __forceinline__ float reference(int r) const { return reference_[r]; }

private:
  /// Of a lane's weights in one row of one tile. bf16 has f32's range, so rows move only where the reference is far off: peaked
  /// logits, whose largest comes late, rarely exceed that of the first tile by 40 powers of two.
  template <class T>
  static constexpr float largest_sum = std::is_same_v<T, bfloat16> ? 0x1p40f : 0x1p14f;
  static constexpr int chunk_groups = 4;

  /// Returns the larger of the two rows' sums over this lane's columns. Sixteen exponentials at a time: the reference of a chunk
  /// is made to depend on the sum of the chunk before the last, without changing it, else the compiler issues all exponentials
  /// of a tile first and everything that could run beside them afterwards.
  template <int columns, class Take>
  __device__ __forceinline__ float weigh(Fragment<columns>& logits, float scale_log2, Take take) {
    constexpr int chunks = Fragment<columns>::groups / chunk_groups;
    float sum[chunks][2];
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float const bias =
            chunk < 2 ? -reference_[r] : fmaf(sum[chunk < 2 ? 0 : chunk - 2][r], 0.0f, -reference_[r]);
        sum[chunk][r] = weigh_chunk(logits, chunk, r, scale_log2, bias);
      }
#pragma unroll
      for (int i = 0; i < chunk_groups / 2; ++i) take(chunk * chunk_groups / 2 + i);
    }
    float total[2] = {sum[0][0], sum[0][1]};
#pragma unroll
    for (int chunk = 1; chunk < chunks; ++chunk) total[0] += sum[chunk][0], total[1] += sum[chunk][1];
    sum_[0] += total[0];
    sum_[1] += total[1];
    return fmaxf(total[0], total[1]);
  }

  template <int columns>
  static __device__ __forceinline__ float weigh_chunk(Fragment<columns>& logits, int chunk, int r,
                                                      float scale_log2, float bias) {
    float sum = 0;
#pragma unroll
    for (int group = chunk * chunk_groups; group < (chunk + 1) * chunk_groups; ++group)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& weight = logits.at(r, group, c);
        weight = exp2_fast(fmaf(weight, scale_log2, bias));
        sum += weight;
      }
    return sum;
  }

  float reference_[2];  ///< times scale_log2
  float sum_[2];        ///< this lane's columns only
};

}  // namespace sparge
