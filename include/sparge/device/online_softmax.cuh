#pragma once
/// Softmax over columns that arrive tile by tile, for the two rows that a lane holds.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// Weights are exp2(logit * scale_log2 - reference). The reference is the row's maximum so far, *after* scaling and
/// rounding: every tile of a row subtracts the very same number, so its rounding cancels even at logits of 1e6.
class OnlineSoftmax {
public:
  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int r = 0; r < 2; ++r) reference_[r] = -infinity(), sum_[r] = 0;
  }

  /// Turns a tile of logits into weights. `rescale[r]` is what everything accumulated before must be multiplied by.
  template <int columns>
  __device__ __forceinline__ void update(Fragment<columns>& logits, float scale_log2, float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float const reference = fmaxf(reference_[r], row_maximum(logits, r) * scale_log2);
      // A row without a finite logit yet: any finite reference makes all its weights exp2(-inf) = 0.
      float const shift = reference == -infinity() ? 0 : reference;
      rescale[r] = exp2_fast(reference_[r] - shift);
      reference_[r] = reference;
      sum_[r] = sum_[r] * rescale[r] + exponentiate(logits, r, scale_log2, shift);
    }
  }

  /// Sum of the row's weights over all lanes; 0 where no key was kept.
  __device__ __forceinline__ float row_sum(int r) const {
    return reduce_row(sum_[r], [](float a, float b) { return a + b; });
  }

  /// Natural logarithm of the sum of exp of scaled logits; -inf where no key was kept.
  __device__ __forceinline__ float log_sum_exp(int r, float row_sum) const {
    return row_sum == 0 ? -infinity() : (reference_[r] + log2f(row_sum)) * ln_2;
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

  float reference_[2];
  float sum_[2];  ///< this lane's columns only
};

}  // namespace sparge
