#pragma once
/// Scores of pooled queries against centred pooled keys: scale * <q, k - mean>, accurate to f32, on tensor cores.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/fragment.cuh"
#include "sparge/device/ldmatrix.cuh"
#include "sparge/device/mma_sm80.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_score_operands.cuh"
#include "sparge/kernel/mask_scores_plain.cuh"

namespace sparge {

/// A thread block scores one row tile against `tile_columns` key blocks.
///
/// Operands are split into two f16 values, and high * high + high * low + low * high leaves out 2^-22 of a product. High
/// products are summed over 16 channels by the tensor core and those sums in f32, since a tensor core cuts off what it adds
/// up; the other products are 2^-11 of them and need no such care. Tiles with a NaN or an infinity are scored plainly.
template <int head_dim>
class MaskScores {
public:
  using Params = MaskScoresParams;
  using Operands = MaskScoreOperands<head_dim>;
  static constexpr int threads = Operands::threads, ctas_per_sm = 2;
  static constexpr std::int64_t most_smem_bytes = Operands::smem_bytes;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    __shared__ float row_factor[RowLayout::tile_rows];
    ScoreTile const tile(params);
    bool const finite = Operands::stage(params, tile, smem, row_factor);
    if (__syncthreads_or(!finite))
      score_plainly(params, tile, threads);
    else
      multiply(params, tile, shared_address(smem), row_factor);
  }

private:
  using Tile = SwizzledTile<head_dim>;
  static constexpr int warp_rows = 32, warp_columns = 32,
                       column_warps = RowLayout::tile_columns / warp_columns;
  static constexpr int row_tiles = warp_rows / 16, column_tiles = warp_columns / 8;

  static __device__ __forceinline__ void multiply(Params const& params, ScoreTile const& tile,
                                                  std::uint32_t smem, float const* row_factor) {
    Fragment<warp_columns> sum[row_tiles], rest[row_tiles];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) sum[i].clear(), rest[i].clear();
    int const row = warp_index() / column_warps * warp_rows;
    int const column = warp_index() % column_warps * warp_columns;
#pragma unroll
    for (int step = 0; step < head_dim / 16; ++step) {
      std::uint32_t key_high[column_tiles / 2][4], key_low[column_tiles / 2][4];
#pragma unroll
      for (int pair = 0; pair < column_tiles / 2; ++pair) {
        load_keys(smem + Operands::k_high, column + 16 * pair, step, key_high[pair]);
        load_keys(smem + Operands::k_low, column + 16 * pair, step, key_low[pair]);
      }
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        std::uint32_t high[4], low[4];
        load_queries(smem + Operands::q_high, row + 16 * i, step, high);
        load_queries(smem + Operands::q_low, row + 16 * i, step, low);
#pragma unroll
        for (int j = 0; j < column_tiles; ++j) {
          std::uint32_t const *const kh = &key_high[j / 2][j % 2 * 2], *const kl = &key_low[j / 2][j % 2 * 2];
          float part[4] = {};
          mma_16x8x16<float16>(part, high, kh[0], kh[1]);
          mma_16x8x16<float16>(rest[i].value[j], high, kl[0], kl[1]);
          mma_16x8x16<float16>(rest[i].value[j], low, kh[0], kh[1]);
#pragma unroll
          for (int c = 0; c < 4; ++c) sum[i].value[j][c] += part[c];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < row_tiles; ++i)
      store(params, tile, row + 16 * i, column, sum[i], rest[i], row_factor);
  }

  /// Two 8-column tiles: their first and second eight channels.
  static __device__ __forceinline__ void load_keys(std::uint32_t tile, int column, int step,
                                                   std::uint32_t (&b)[4]) {
    int const lane = lane_index();
    ldmatrix(b, tile + Tile::offset(column + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
  }
  static __device__ __forceinline__ void load_queries(std::uint32_t tile, int row, int step,
                                                      std::uint32_t (&a)[4]) {
    ldmatrix(a, tile + Tile::offset(row + lane_index() % 16, 2 * step + lane_index() / 16));
  }

  /// Writes padding too.
  static __device__ __forceinline__ void store(Params const& params, ScoreTile const& tile, int row,
                                               int column, Fragment<warp_columns> const& sum,
                                               Fragment<warp_columns> const& rest, float const* row_factor) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int const line = row + Fragment<warp_columns>::row(r);
      float const factor = row_factor[line];
      std::uint32_t* const out = tile.scores(params, line) + column;
#pragma unroll
      for (int j = 0; j < column_tiles; ++j) {
        float const first = factor * (sum.at(r, j, 0) + rest.at(r, j, 0)),
                    second = factor * (sum.at(r, j, 1) + rest.at(r, j, 1));
        *reinterpret_cast<uint2*>(out + Fragment<warp_columns>::column(j, 0)) =
            make_uint2(__float_as_uint(first), __float_as_uint(second));
      }
    }
  }
};

SPARGE_INLINE cudaError_t launch_mask_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept {
  std::int64_t const tiles = params.chunk.tiles * (params.pitch / RowLayout::tile_columns);
  if (params.head_dim == 64)
    return launch<MaskScores<64>>(params, tiles, MaskScores<64>::most_smem_bytes, stream);
  if (params.head_dim == 128)
    return launch<MaskScores<128>>(params, tiles, MaskScores<128>::most_smem_bytes, stream);
  return cudaErrorInvalidValue;  // a problem of another head_dim is refused long before
}

}  // namespace sparge
