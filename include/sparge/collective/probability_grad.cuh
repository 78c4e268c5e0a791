#pragma once
/// From logits and dP of a tile to P and dS, in registers: P = exp(scale * logit - lse), dS = P * (dP - delta).

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// How lse of a row is held, and so how P is computed from a logit.
enum class LseForm {
  /// Times log2(e): one instruction fewer. P is off by a factor of 1 +- 2^-23 |lse|, 3e-5 at `steady_lse`.
  steady,
  /// As it is: the difference is one rounding of the exact value, so that P is as good as lse however large the logits
  /// are. lse = +inf stands for a row that keeps no key and gives 0.
  exact,
};

/// The largest |lse| that is held as LseForm::steady.
inline constexpr float steady_lse = 256;

/// `exponent`: of the power of two that P will be carried times.
template <LseForm form, int exponent = 0>
__device__ __forceinline__ float hold(float lse) {
  if constexpr (form == LseForm::exact)
    return lse;
  else if constexpr (exponent == 0)
    return lse * log2_e;
  else
    return fmaf(lse, log2_e, -exponent);
}

/// One value for each row that a lane holds: two of every fragment.
template <int fragments>
struct RowValues {
  float of[fragments][2];

  /// Whether |lse| of this lane's rows allows the steady form. A NaN, which stays one in either, does.
  __device__ __forceinline__ bool allows_steady() const {
    float largest = 0;
#pragma unroll
    for (int f = 0; f < fragments; ++f) largest = fmaxf(largest, fmaxf(fabsf(of[f][0]), fabsf(of[f][1])));
    return largest <= steady_lse;
  }

  __device__ __forceinline__ void hold_steady() {
#pragma unroll
    for (int f = 0; f < fragments; ++f)
#pragma unroll
      for (int r = 0; r < 2; ++r) of[f][r] = hold<LseForm::steady>(of[f][r]);
  }

  /// lse of the thread block's rows, in the form that all of them allow, which is returned: of the whole block, since what
  /// depends on it has barriers. Called by all threads.
  __device__ __forceinline__ LseForm hold_lse() {
    // By warps first: with the block's vote alone, the compiler spills in the loops that depend on it.
    bool const is_warp_steady = __all_sync(all_lanes, allows_steady());
    if (__syncthreads_and(is_warp_steady) == 0) return LseForm::exact;
    hold_steady();
    return LseForm::steady;
  }
};

/// exp(scale * logit - lse) times 2^exponent, lse being held in the form for that exponent.
template <LseForm form, int exponent = 0>
__device__ __forceinline__ float probability(float logit, float scale, float lse) {
  if constexpr (form == LseForm::steady)
    return exp2_fast(fmaf(logit, scale * log2_e, -lse));
  else if constexpr (exponent == 0)
    return exp2_fast(fmaf(logit, scale, -lse) * log2_e);
  else
    return exp2_fast(fmaf(fmaf(logit, scale, -lse), log2_e, exponent));
}

/// Rows are queries. `p` comes as logits before scaling, `ds` as dP; `lse` is held in the form.
template <LseForm form, int columns>
__device__ __forceinline__ void differentiate_rows(Fragment<columns>& p, Fragment<columns>& ds,
                                                   float const (&lse)[2], float const (&delta)[2],
                                                   float scale) {
#pragma unroll
  for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        p.at(r, group, c) = probability<form>(p.at(r, group, c), scale, lse[r]);
        ds.at(r, group, c) = p.at(r, group, c) * (ds.at(r, group, c) - delta[r]);
      }
}

/// Columns are queries: the same, for the columns of one group of eight.
template <LseForm form, int columns>
__device__ __forceinline__ void differentiate_columns(Fragment<columns>& p, Fragment<columns>& ds, int group,
                                                      float2 lse, float2 delta, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    p.at(r, group, 0) = probability<form>(p.at(r, group, 0), scale, lse.x);
    p.at(r, group, 1) = probability<form>(p.at(r, group, 1), scale, lse.y);
    ds.at(r, group, 0) = p.at(r, group, 0) * (ds.at(r, group, 0) - delta.x);
    ds.at(r, group, 1) = p.at(r, group, 1) * (ds.at(r, group, 1) - delta.y);
  }
}

}  // namespace sparge
