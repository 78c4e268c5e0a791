#pragma once
/// Softmax over columns that arrive tile by tile, for the two rows that a lane holds.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// Weights are exp2((logit - maximum) * scale_log2) with the row's maximum so far. Subtracting before scaling makes the
/// largest weight exactly 1 at logits of any size; one fused multiply-add would leave a rounding of logit * scale_log2 in it,
/// which at logits of 1e5 is felt when weights are rounded to the element type.
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
      float const before = maximum_[r];
      maximum_[r] = fmaxf(before, row_maximum(logits, r));
      // A row without a finite logit yet: any finite reference makes all its weights exp2(-inf) = 0.
      float const reference = maximum_[r] == -infinity() ? 0 : maximum_[r];
      rescale[r] = exp2_fast((before - reference) * scale_log2);
      sum_[r] = sum_[r] * rescale[r] + exponentiate(logits, r, scale_log2, reference);
    }
  }

  /// Sum of the row's weights over all lanes; 0 where no key was kept.
  __device__ __forceinline__ float row_sum(int r) const {
    return reduce_row(sum_[r], [](float a, float b) { return a + b; });
  }

  /// Natural logarithm of the sum of exp of scaled logits; -inf where no key was kept.
  __device__ __forceinline__ float log_sum_exp(int r, float scale_log2, float row_sum) const {
    return row_sum == 0 ? -infinity() : (maximum_[r] * scale_log2 + log2f(row_sum)) * ln_2;
  }

private:
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
                                                       float reference) {
    float sum = 0;
#pragma unroll
    for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& weight = logits.at(r, group, c);
        weight = exp2_fast((weight - reference) * scale_log2);
        sum += weight;
      }
    return sum;
  }

  float maximum_[2];  ///< of the logits before scaling
  float sum_[2];      ///< this lane's columns only
};

}  // namespace sparge
