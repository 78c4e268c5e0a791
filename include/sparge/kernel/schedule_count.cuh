#pragma once
/// Kept blocks of every row and every column of a mask.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/transpose.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/schedule_params.hpp"

namespace sparge {

/// A warp counts a few rows, whose words it asks for at once; a thread block counts 32 neighbouring columns over all heads of a
/// group, a warp every eighth square of 32 x 32 bits.
class ScheduleCount {
public:
  using Params = ScheduleParams;
  static constexpr int warps = 8, threads = 32 * warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    let_next_kernel_start();
    int block = static_cast<int>(blockIdx.x);
    int pass = 0;
    if (block >= params.passes[0].count_blocks) block -= params.passes[0].count_blocks, pass = 1;
    if (params.passes[pass].lines == ScheduleLines::rows)
      count_rows(params, params.passes[pass], std::int64_t{block} * warps + warp_index(),
                 std::int64_t{params.passes[pass].count_blocks} * warps);
    else
      count_columns(params, params.passes[pass], block);
  }

  /// Thread blocks for a pass.
  static constexpr std::int64_t blocks_for(ScheduleParams const& params, SchedulePass const& pass) {
    if (pass.lines == ScheduleLines::columns)
      return params.kv_blocks == 0 ? 0 : pass.shape.tiles / params.kv_blocks * params.row_words;
    std::int64_t const needed = ceil_div(pass.shape.tiles, warps * rows_at_once);
    return needed < most_row_blocks ? needed : most_row_blocks;
  }

private:
  /// So that the rows of a small mask take few multiprocessors, and a kernel that starts early has the others at once.
  static constexpr int rows_at_once = 4;
  static constexpr std::int64_t most_row_blocks = 4096;

  /// By a warp: rows `first`, `first + step` ..
  static __device__ __forceinline__ void count_rows(Params const& params, SchedulePass const& pass,
                                                    std::int64_t first, std::int64_t step) {
    for (; first < pass.shape.tiles; first += rows_at_once * step) {
      int kept[rows_at_once] = {};
      for (int word = lane_index(); word < params.row_words; word += 32) {
        std::uint32_t const valid = valid_bits(32 * word, params.kv_blocks);
#pragma unroll
        for (int i = 0; i < rows_at_once; ++i)
          if (std::int64_t const row = first + i * step; row < pass.shape.tiles)
            kept[i] += __popc(params.mask[row * params.row_words + word] & valid);
      }
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        int const sum = warp_sum(kept[i]);
        std::int64_t const row = first + i * step;
        if (lane_index() == 0 && row < pass.shape.tiles) pass.schedule.counts[row] = sum;
      }
    }
  }

  static __device__ __forceinline__ void count_columns(Params const& params, SchedulePass const& pass,
                                                       int block) {
    __shared__ int kept_of[warps][32];
    std::int64_t const group = block / params.row_words;
    int const word = block % params.row_words, rows = static_cast<int>(pass.shape.blocks);
    std::uint32_t const* const words = params.mask + group * rows * params.row_words + word;
    int kept = 0;
#pragma unroll 4
    for (int first = 32 * warp_index(); first < rows; first += threads) {
      int const row = first + lane_index();
      kept += __popc(transpose_bits(row < rows ? words[std::int64_t{row} * params.row_words] : 0));
    }
    kept_of[warp_index()][lane_index()] = kept;
    __syncthreads();
    int const kv_block = 32 * word + lane_index();
    if (warp_index() != 0 || kv_block >= params.kv_blocks) return;
    int total = 0;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) total += kept_of[warp][lane_index()];
    pass.schedule.counts[group * params.kv_blocks + kv_block] = total;
  }
};

}  // namespace sparge
