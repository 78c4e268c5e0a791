#pragma once
/// Softmax over columns that arrive tile by tile, for the two rows that a lane holds.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// Weights are exp2(logit * scale_log2 - shift), one fused multiply-add each, with shift = maximum * scale_log2 rounded.
/// That rounding is in the largest weight, which should be 1 exactly: rounded to the element type, it would leave an error
/// that a row with one winner cannot average out. Beyond `largest_shift` the maximum is therefore subtracted before scaling.
class OnlineSoftmax {
public:
  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < 2; ++r) maximum_[r] = -infinity(), sum_[r] = 0;
  }

  /// Turns a tile of logits into weights. `rescale[r]` is what everything accumulated before must be multiplied by.
  template <int columns>
  __device__ __forceinline__ void update(Fragment<columns>& logits, float scale_log2, float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float before = maximum_[r];
      maximum_[r] = fmaxf(before, row_maximum(logits, r));
      // A row without a finite logit yet: any finite reference makes all its weights exp2(-inf) = 0.
      float const reference = maximum_[r] == -infinity() ? 0 : maximum_[r];
      float shift = __fmul_rn(reference, scale_log2);
      if (fabsf(shift) > largest_shift) {
        before -= reference;
        logits.shift_row(r, -reference);
        shift = 0;
      }
      rescale[r] = exp2_fast(__fmul_rn(before, scale_log2) - shift);
      sum_[r] = sum_[r] * rescale[r] + exponentiate(logits, r, scale_log2, shift);
    }
  }

  /// Sum of the row's weights over all lanes; 0 where no key was kept.
  __device__ __forceinline__ float row_sum(int r) const {
    return reduce_row(sum_[r], [](float a, float b) { return a + b; });
  }

  /// Natural logarithm of the sum of exp of scaled logits; -inf where no key was kept.
  __device__ __forceinline__ float log_sum_exp(int r, float scale_log2, float row_sum) const {
    return row_sum == 0 ? -infinity() : (__fmul_rn(maximum_[r], scale_log2) + log2f(row_sum)) * ln_2;
  }

private:
  /// A shift up to here is off by at most 2^-13, and exp2 of that rounds to 1 in every element type.
  static constexpr float largest_shift = 2048;

  template <int columns>
  static __device__ __forceinline__ float row_maximum(Fragment<columns> const& logits, int r) {
    float maximum = fmaxf(logits.at(r, 0, 0), logits.at(r, 0, 1));
#pragma unroll
    for (int group = 1; group < Fragment<columns>::groups; ++group)
      maximum = fmaxf(maximum, fmaxf(logits.at(r, group, 0), logits.at(r, group, 1)));
    return reduce_row(maximum, [](float a, float b) { return fmaxf(a, b); });
  }

  /// Returns this lane's share of the row sum.
  template <int columns>
  static __device__ __forceinline__ float exponentiate(Fragment<columns>& logits, int r, float scale_log2,
                                                       float shift) {
    float sum = 0;
#pragma unroll
    for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& weight = logits.at(r, group, c);
        weight = exp2_fast(fmaf(weight, scale_log2, -shift));
        sum += weight;
      }
    return sum;
  }

  float maximum_[2];  ///< of the logits before scaling
  float sum_[2];      ///< this lane's columns only
};

}  // namespace sparge
