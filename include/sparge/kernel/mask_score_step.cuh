#pragma once
/// How the thread blocks of a scoring kernel share its work.

#include <cstdint>

#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A row tile and a step of columns of the chunk in work. Steps run through the columns of a row tile, then of the next.
template <int step_columns>
struct ScoreStep {
  int chunk_tile, column, group;
  int row;  ///< of the group

  __device__ __forceinline__ ScoreStep(MaskScoresParams const& params, int step, int steps_of_tile)
      : chunk_tile(step / steps_of_tile), column(step % steps_of_tile * step_columns) {
    std::int64_t const tile = params.chunk.first_tile + chunk_tile;
    group = static_cast<int>(tile / params.group_tiles);
    row = static_cast<int>(tile % params.group_tiles) * RowLayout::tile_rows;
  }

  __device__ __forceinline__ void advance(MaskScoresParams const& params) {
    column += step_columns;
    if (column < params.kv_blocks) return;
    column = 0, ++chunk_tile, row += RowLayout::tile_rows;
    if (row >= params.group_rows) row = 0, ++group;
  }
};

/// The steps of one thread block: all share the steps of a chunk equally, each a run of them.
struct ScoreRun {
  int steps_of_tile, first, end;

  __device__ __forceinline__ ScoreRun(MaskScoresParams const& params, int step_columns)
      : steps_of_tile((params.kv_blocks + step_columns - 1) / step_columns) {
    std::int64_t const steps = params.chunk.tiles * steps_of_tile;
    first = static_cast<int>(steps * blockIdx.x / gridDim.x);
    end = static_cast<int>(steps * (blockIdx.x + 1) / gridDim.x);
  }
};

}  // namespace sparge
