#pragma once
/// From logits and dP of a tile to P and dS, in registers: P = exp(scale * logit - lse), dS = P * (dP - delta).

#include "sparge/device/fragment.cuh"
#include "sparge/device/math.cuh"

namespace sparge {

/// One value for each row that a lane holds: two of every fragment.
template <int fragments>
struct RowValues {
  float of[fragments][2];
};

/// The difference is one rounding of the exact value, so that P is as good as lse however large the logits are. lse = +inf
/// stands for a row that keeps no key and gives 0.
__device__ __forceinline__ float probability(float logit, float scale, float lse) {
  constexpr float log2_e = 1.4426950408889634f;
  return exp2_fast(fmaf(logit, scale, -lse) * log2_e);
}

/// Rows are queries. `p` comes as logits before scaling, `ds` as dP.
template <int columns>
__device__ __forceinline__ void differentiate_rows(Fragment<columns>& p, Fragment<columns>& ds,
                                                   float const (&lse)[2], float const (&delta)[2],
                                                   float scale) {
#pragma unroll
  for (int group = 0; group < Fragment<columns>::groups; ++group)
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        p.at(r, group, c) = probability(p.at(r, group, c), scale, lse[r]);
        ds.at(r, group, c) = p.at(r, group, c) * (ds.at(r, group, c) - delta[r]);
      }
}

/// Columns are queries: the same, for the columns of one group of eight.
template <int columns>
__device__ __forceinline__ void differentiate_columns(Fragment<columns>& p, Fragment<columns>& ds, int group,
                                                      float2 lse, float2 delta, float scale) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    p.at(r, group, 0) = probability(p.at(r, group, 0), scale, lse.x);
    p.at(r, group, 1) = probability(p.at(r, group, 1), scale, lse.y);
    ds.at(r, group, 0) = p.at(r, group, 0) * (ds.at(r, group, 0) - delta.x);
    ds.at(r, group, 1) = p.at(r, group, 1) * (ds.at(r, group, 1) - delta.y);
  }
}

}  // namespace sparge
