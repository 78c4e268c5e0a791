#pragma once
/// A score that NaN or infinity has a part in: f32 products, whose sums say what IEEE arithmetic says.

#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// Sixteen channels are summed at a time. Slow, and not unrolled: it is there for networks that diverge.
__device__ __forceinline__ float plain_score(float const* query, float const* key, float const* mean,
                                             int head_dim, float scale) {
  float score = 0;
#pragma unroll 1
  for (int first = 0; first < head_dim; first += 16) {
    float sum = 0;
#pragma unroll 4
    for (int c = first; c < first + 16; ++c) sum = fmaf(query[c], key[c] - mean[c], sum);
    score += sum;
  }
  return scale * score;
}

}  // namespace sparge
