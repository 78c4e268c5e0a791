#pragma once
/// Softmax over columns that arrive tile by tile, for the rows that a lane holds: two of every fragment.

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// Weights are exp2(logit * scale_log2 - shift), one fused multiply-add each, with shift = maximum * scale_log2 rounded.
/// That rounding is in the largest weight, which should be 1 exactly: rounded to the element type, it would leave an error
/// that a row with one winner cannot average out. Beyond `largest_shift` the maximum is therefore subtracted before scaling.
/// One object for all fragments of a warp, so that a tile is one straight run of exponentials.
template <int fragments>
class OnlineSoftmax {
public:
  using RowFactors = float[fragments][2];

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) maximum_[f][r] = -infinity(), sum_[f][r] = 0;
  }

  /// Turns a tile of logits into weights. `rescale` is what everything accumulated before must be multiplied by.
  template <int columns>
  __device__ __forceinline__ void update(Fragment<columns> (&logits)[fragments], float scale_log2,
                                         RowFactors& rescale) {
    RowFactors shift;
    raise_maxima(logits, scale_log2, rescale, shift);
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        sum_[f][r] = sum_[f][r] * rescale[f][r] + exponentiate(logits[f], r, scale_log2, shift[f][r]);
  }

  /// Sum of a row's weights over all lanes; 0 where no key was kept.
  __device__ __forceinline__ float row_sum(int f, int r) const {
    return reduce_row(sum_[f][r], [](float a, float b) { return a + b; });
  }

  /// Natural logarithm of the sum of exp of scaled logits; -inf where no key was kept.
  __device__ __forceinline__ float log_sum_exp(int f, int r, float scale_log2, float row_sum) const {
    return row_sum == 0 ? -infinity() : (__fmul_rn(maximum_[f][r], scale_log2) + log2f(row_sum)) * ln_2;
  }

private:
  /// A shift up to here is off by at most 2^-13, and exp2 of that rounds to 1 in every element type.
  static constexpr float largest_shift = 2048;

  /// Takes the tile into the maxima; returns the shifts of its weights and what earlier weights are worth now.
  template <int columns>
  __device__ __forceinline__ void raise_maxima(Fragment<columns> (&logits)[fragments], float scale_log2,
                                               RowFactors& rescale, RowFactors& shift) {
    RowFactors before;
    bool far = false;
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        before[f][r] = maximum_[f][r];
        maximum_[f][r] = fmaxf(maximum_[f][r], row_maximum(logits[f], r));
        shift[f][r] = __fmul_rn(reference(f, r), scale_log2);
        far = far || fabsf(shift[f][r]) > largest_shift;
      }
    if (__any_sync(0xffffffffu, far)) subtract_maxima(logits, before, shift);
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        rescale[f][r] = exp2_fast(__fmul_rn(before[f][r], scale_log2) - shift[f][r]);
  }

  /// Rare, and the same for the whole warp: weights relative to the maximum itself instead of to its rounded product.
  template <int columns>
  __device__ __forceinline__ void subtract_maxima(Fragment<columns> (&logits)[fragments], RowFactors& before,
                                                  RowFactors& shift) const {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (!(fabsf(shift[f][r]) > largest_shift)) continue;
        before[f][r] -= reference(f, r);
        logits[f].shift_row(r, -reference(f, r));
        shift[f][r] = 0;
      }
  }

  /// The maximum, or for a row without a finite logit yet any finite number: all its weights are exp2(-inf) = 0.
  __device__ __forceinline__ float reference(int f, int r) const {
    return maximum_[f][r] == -infinity() ? 0 : maximum_[f][r];
  }

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

  float maximum_[fragments][2];  ///< of the logits before scaling
  float sum_[fragments][2];      ///< this lane's columns only
};

}  // namespace sparge
