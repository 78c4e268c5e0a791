#pragma once
/// Scores of a tile that holds NaN or infinity: f32 products, whose sums say what IEEE arithmetic says.

#include <cstdint>

#include "sparge/kernel/mask_score_operands.cuh"

namespace sparge {

/// Sixteen channels are summed at a time. Slow, and not unrolled: it is there for networks that diverge.
__device__ __forceinline__ float plain_score(MaskScoresParams const& params, float const* query,
                                             float const* key, float const* mean) {
  float score = 0;
#pragma unroll 1
  for (int first = 0; first < params.head_dim; first += 16) {
    float sum = 0;
#pragma unroll 4
    for (int c = first; c < first + 16; ++c) sum = fmaf(query[c], key[c] - mean[c], sum);
    score += sum;
  }
  return params.scale * score;
}

/// Every thread of the block calls; padding is left as it is.
__device__ __forceinline__ void score_plainly(MaskScoresParams const& params, ScoreTile const& tile,
                                              int threads) {
  float const* const mean = params.key_mean + tile.group * params.head_dim;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < RowLayout::tile_rows * RowLayout::tile_columns;
       i += threads) {
    int const row = i / RowLayout::tile_columns, column = i % RowLayout::tile_columns;
    if (!tile.has_row(params, row) || !tile.has_column(params, column)) continue;
    float const score = plain_score(params, tile.query(params, row), tile.key(params, column), mean);
    tile.scores(params, row)[column] = __float_as_uint(score);
  }
}

}  // namespace sparge
