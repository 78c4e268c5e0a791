#pragma once
/// Softmax over columns that arrive tile by tile, for the rows that a lane holds: two of every fragment.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// What the exponent of a weight is measured from.
enum class SoftmaxReference {
  scaled,  ///< exp2(logit * scale_log2 - shift), shift = maximum * scale_log2 rounded: one fused multiply-add
  exact,  ///< exp2((logit - maximum) * scale_log2): one instruction more, and the largest weight is exactly 1
};

/// The rounding of a scaled reference is in every weight of a row alike, and cancels, but for one thing: the largest weight
/// is then not exactly 1, and rounding it to the element type leaves an error that a row with one winner cannot average out.
/// Only a huge shift is that far off. So rows are computed with the scaled reference, and where `needs_exact()` says so at the
/// end (maxima only rise, so the end decides), once more with the exact one.
///
/// One object serves all fragments of a warp, so that a tile is one straight run of exponentials.
template <int fragments>
class OnlineSoftmax {
public:
  using RowFactors = float[fragments][2];

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) maximum_[f][r] = -infinity(), sum_[f][r] = 0;
  }

  /// Turns a tile of logits into weights. `rescale` is what everything accumulated before must be multiplied by.
  template <SoftmaxReference how, int columns>
  __device__ __forceinline__ void update(Fragment<columns> (&logits)[fragments], float scale_log2,
                                         RowFactors& rescale) {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float const before = maximum_[f][r];
        maximum_[f][r] = fmaxf(before, row_maximum(logits[f], r));
        // A row without a finite logit yet: any finite reference makes all its weights exp2(-inf) = 0.
        float const reference = maximum_[f][r] == -infinity() ? 0 : maximum_[f][r];
        float const origin = how == SoftmaxReference::scaled ? __fmul_rn(reference, scale_log2) : reference;
        rescale[f][r] = how == SoftmaxReference::scaled ? exp2_fast(__fmul_rn(before, scale_log2) - origin)
                                                        : exp2_fast((before - origin) * scale_log2);
        sum_[f][r] = sum_[f][r] * rescale[f][r] + exponentiate<how>(logits[f], r, scale_log2, origin);
      }
  }

  /// Whether a row of this lane needs the exact reference: its shift is so large that exp2 of its rounding may not round to 1
  /// in every element type. A shift of 2048 is off by at most 2^-13, which does.
  __device__ __forceinline__ bool needs_exact(float scale_log2) const {
    constexpr float largest_shift = 2048;
    bool far = false;
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float const maximum = fabsf(maximum_[f][r]);
        far = far || (maximum * scale_log2 > largest_shift && maximum < infinity());
      }
    return far;
  }

  /// Sum of a row's weights over all lanes; 0 where no key was kept.
  __device__ __forceinline__ float row_sum(int f, int r) const {
    return reduce_row(sum_[f][r], [](float a, float b) { return a + b; });
  }

  /// Natural logarithm of the sum of exp of scaled logits; -inf where no key was kept.
  __device__ __forceinline__ float log_sum_exp(int f, int r, float scale_log2, float row_sum) const {
    return row_sum == 0 ? -infinity() : (__fmul_rn(maximum_[f][r], scale_log2) + log2f(row_sum)) * ln_2;
  }

  /// The largest logit so far, before scaling.
  __device__ __forceinline__ float maximum(int f, int r) const { return maximum_[f][r]; }

private:
  /// Returns this lane's share of the row sum.
  template <SoftmaxReference how, int columns>
  static __device__ __forceinline__ float exponentiate(Fragment<columns>& logits, int r, float scale_log2,
                                                       float origin) {
    float sum = 0;
#pragma unroll
    for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& weight = logits.at(r, group, c);
        weight = how == SoftmaxReference::scaled ? exp2_fast(fmaf(weight, scale_log2, -origin))
                                                 : exp2_fast((weight - origin) * scale_log2);
        sum += weight;
      }
    return sum;
  }

  float maximum_[fragments][2];  ///< of the logits before scaling
  float sum_[fragments][2];      ///< this lane's columns only
};

}  // namespace sparge
