#pragma once
/// Scores of pooled queries against centred pooled keys: scale * <q, k - mean>, accurate to f32, on tensor cores.

#include <algorithm>
#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/cp_async.cuh"
#include "sparge/device/fragment.cuh"
#include "sparge/device/ldmatrix.cuh"
#include "sparge/device/math.cuh"
#include "sparge/device/mma_sm80.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_score_operands.cuh"
#include "sparge/kernel/mask_score_step.cuh"
#include "sparge/kernel/mask_scores_plain.cuh"
#include "sparge/kernel/mask_scores_sm90.cuh"

namespace sparge {

/// The thread blocks share all steps of a chunk equally, each a run of them. A warp holds 32 queries of a row tile in registers;
/// key tiles come by asynchronous copies, `stages` - 1 steps ahead, whatever row tile they are for.
///
/// Operands are split into two f16 values, and high * high + high * low + low * high leaves out 2^-22 of a product. Products
/// are summed over 16 channels by the tensor core, the small ones first, and those sums in f32, since a tensor core cuts off
/// what it adds up. A score that is not finite is scored plainly.
template <int head_dim>
class MaskScores {
public:
  using Params = MaskScoresParams;
  static constexpr int warps = 4, threads = 32 * warps, ctas_per_sm = 2;
  static constexpr int stages = 4;
  static constexpr std::int64_t most_smem_bytes = stages * 4 * RowLayout::step_columns * head_dim;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    ScoreRun const share(params, columns);
    int const first = share.first, end = share.end;
    if (first == end) return;
    std::uint32_t const keys = shared_address(smem);
    Step at(params, first, share.steps_of_tile), ahead = at;
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) {
      if (first + i < end) fetch(params, ahead, keys + i * stage_bytes);
      ahead.advance(params);
      cp_async_commit();
    }
    Queries queries;
    int tile_held = -1;
    for (int step = first; step < end; ++step) {
      int const warp_row = at.row + 32 * warp_index(), rows = static_cast<int>(params.group_rows) - warp_row;
      if (at.chunk_tile != tile_held && rows > 0)
        queries.load(params.pooled_q + (at.group * params.group_rows + warp_row) * head_dim, rows,
                     params.key_size + std::int64_t{at.group} * head_dim, params.scale);
      tile_held = at.chunk_tile;
      cp_async_wait<stages - 2>();
      __syncthreads();  // the step's keys are there for all, and those of the last step have been read
      if (step + stages - 1 < end)
        fetch(params, ahead, keys + (step - first + stages - 1) % stages * stage_bytes);
      ahead.advance(params);
      cp_async_commit();
      if (rows > 0) multiply(params, at, queries, keys + (step - first) % stages * stage_bytes);
      at.advance(params);
    }
  }

private:
  static constexpr int row_tiles = 2;
  using Step = ScoreStep<RowLayout::step_columns>;
  using Queries = SplitQueries<head_dim, row_tiles>;
  using Tile = SwizzledTile<head_dim>;
  using Sum = Fragment<RowLayout::step_columns>;
  static constexpr int columns = RowLayout::step_columns, column_tiles = columns / 8;
  static constexpr int part_bytes = columns * head_dim * 2,
                       stage_bytes = 2 * part_bytes;  ///< high parts, low parts

  /// Columns that do not exist are zeros.
  static __device__ __forceinline__ void fetch(Params const& params, Step const& at, std::uint32_t stage) {
    constexpr int line_chunks = 2 * Tile::chunks, lines = threads / line_chunks;
    int const chunk = static_cast<int>(threadIdx.x) % line_chunks,
              line = static_cast<int>(threadIdx.x) / line_chunks;
    std::uint16_t const* const from =
        params.split_keys + (std::int64_t{at.group} * params.kv_blocks + at.column + line) * (2 * head_dim) +
        chunk * 8;
    std::uint32_t const to = stage + chunk / Tile::chunks * part_bytes;
    int const left = params.kv_blocks - at.column - line;
#pragma unroll
    for (int i = 0; i < columns / lines; ++i)
      cp_async_16(to + Tile::offset(line + i * lines, chunk % Tile::chunks), from + i * lines * 2 * head_dim,
                  i * lines < left);
  }

  static __device__ __forceinline__ void multiply(Params const& params, Step const& at,
                                                  Queries const& queries, std::uint32_t stage) {
    Sum sum[row_tiles];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) sum[i].clear();
    // Two 8-column tiles: their first and second eight channels.
    int const lane = lane_index();
    std::uint32_t const keys = stage + Tile::offset(lane / 16 * 8 + lane % 8, lane / 8 % 2);
#pragma unroll
    for (int step = 0; step < head_dim / 16; ++step) {
      std::uint32_t key_high[column_tiles / 2][4], key_low[column_tiles / 2][4];
      std::uint32_t const here = Tile::step(keys, 2 * step);
#pragma unroll
      for (int pair = 0; pair < column_tiles / 2; ++pair) {
        ldmatrix(key_high[pair], here + 16 * pair * Tile::row_bytes);
        ldmatrix(key_low[pair], here + 16 * pair * Tile::row_bytes + part_bytes);
      }
      Sum part[row_tiles];
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) part[i].clear();
      add_products(part, queries.high, step, key_low);
      add_products(part, queries.low, step, key_high);
      add_products(part, queries.high, step, key_high);
#pragma unroll
      for (int i = 0; i < row_tiles; ++i)
#pragma unroll
        for (int j = 0; j < column_tiles; ++j)
#pragma unroll
          for (int c = 0; c < 4; ++c) sum[i].value[j][c] += part[i].value[j][c];
    }
    store(params, at, queries, sum);
  }

  static __device__ __forceinline__ void add_products(
      Sum (&part)[row_tiles], std::uint32_t const (&queries)[row_tiles][head_dim / 16][4], int step,
      std::uint32_t const (&keys)[column_tiles / 2][4]) {
#pragma unroll
    for (int i = 0; i < row_tiles; ++i)
#pragma unroll
      for (int j = 0; j < column_tiles; ++j)
        mma_16x8x16<float16>(part[i].value[j], queries[i][step], keys[j / 2][j % 2 * 2],
                             keys[j / 2][j % 2 * 2 + 1]);
  }

  /// Columns of the step that do not exist score NaN.
  static __device__ __forceinline__ void store(Params const& params, Step const& at, Queries const& queries,
                                               Sum const (&sum)[row_tiles]) {
    float* const out =
        reinterpret_cast<float*>(params.scores) + at.column +
        (std::int64_t{at.chunk_tile} * RowLayout::tile_rows + 32 * warp_index()) * params.pitch;
    bool const partial = at.column + columns > params.kv_blocks;
    float const nan = __uint_as_float(0x7fffffff);
    float zero = 0;  // NaN as soon as 0 times anything is
#pragma unroll
    for (int i = 0; i < row_tiles; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float const factor = queries.back_factor[i][r];
        float* const line = out + Queries::row(i, r) * params.pitch;
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
          float2 score = make_float2(factor * sum[i].at(r, j, 0), factor * sum[i].at(r, j, 1));
          zero = fmaf(score.x, 0.0f, zero), zero = fmaf(score.y, 0.0f, zero);
          int const column = Sum::column(j, 0);
          if (partial && at.column + column >= params.kv_blocks) score.x = nan;
          if (partial && at.column + column + 1 >= params.kv_blocks) score.y = nan;
          *reinterpret_cast<float2*>(line + column) = score;
        }
      }
    if (zero != 0) score_plainly(params, at.group, at.row, at.column, out);
  }

  /// This lane's scores that are not finite, again.
  static __device__ __forceinline__ void score_plainly(Params const& params, std::int64_t group,
                                                       int first_row, int first_column, float* out) {
    float const* const mean = params.key_mean + group * head_dim;
#pragma unroll 1
    for (int i = 0; i < row_tiles * 4 * column_tiles; ++i) {
      int const line = i / (2 * column_tiles) * 8 + lane_index() / 4,
                line_column = i % (2 * column_tiles) / 2 * 8 + 2 * (lane_index() % 4) + i % 2;
      std::int64_t const row = first_row + 32 * warp_index() + line, column = first_column + line_column;
      float* const score = out + line * params.pitch + line_column;
      if (row >= params.group_rows || column >= params.kv_blocks || fabsf(*score) < infinity()) continue;
      *score = plain_score(params.pooled_q + (group * params.group_rows + row) * head_dim,
                           params.pooled_k + (group * params.kv_blocks + column) * head_dim, mean, head_dim,
                           params.scale);
    }
  }
};

namespace detail {

template <class Kernel, int step_columns>
cudaError_t launch_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept {
  std::int64_t const steps = params.chunk.tiles * ceil_div(params.kv_blocks, step_columns);
  std::int64_t const most = std::int64_t{std::max(params.sm_count, 1)} * Kernel::ctas_per_sm;
  return launch<Kernel>(params, std::min(steps, most), Kernel::most_smem_bytes, stream, params.code_is_90a);
}

template <int head_dim>
cudaError_t launch_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept {
  if (params.code_is_90a) {
    using Kernel = MaskScoresSm90<head_dim>;
    return launch_scores<Kernel, Kernel::columns>(params, stream);
  }
  return launch_scores<MaskScores<head_dim>, RowLayout::step_columns>(params, stream);
}

}  // namespace detail

SPARGE_INLINE cudaError_t launch_mask_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept {
  if (params.head_dim == 64) return detail::launch_scores<64>(params, stream);
  if (params.head_dim == 128) return detail::launch_scores<128>(params, stream);
  return cudaErrorInvalidValue;  // a problem of another head_dim is refused long before
}

}  // namespace sparge
