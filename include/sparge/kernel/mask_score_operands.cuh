#pragma once
/// The operands of a tile of scores in shared memory, each split into two f16 values.

#include <cstdint>

#include "sparge/device/fragment.cuh"
#include "sparge/device/split.cuh"
#include "sparge/device/swizzle.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// Where the tile of a thread block lies.
struct ScoreTile {
  std::int64_t chunk_tile, group, row,
      column;  ///< tile of the chunk; of the group: group, first row, first column

  __device__ __forceinline__ explicit ScoreTile(MaskScoresParams const& params) {
    std::int64_t const column_tiles = params.pitch / RowLayout::tile_columns;
    chunk_tile = blockIdx.x / column_tiles;
    column = blockIdx.x % column_tiles * RowLayout::tile_columns;
    std::int64_t const tile = params.chunk.first_tile + chunk_tile;
    group = tile / params.group_tiles;
    row = tile % params.group_tiles * RowLayout::tile_rows;
  }

  __device__ __forceinline__ std::uint32_t* scores(MaskScoresParams const& params, int line) const {
    return params.scores + (chunk_tile * RowLayout::tile_rows + line) * params.pitch + column;
  }
  __device__ __forceinline__ bool has_row(MaskScoresParams const& params, int line) const {
    return row + line < params.group_rows;
  }
  __device__ __forceinline__ bool has_column(MaskScoresParams const& params, int line) const {
    return column + line < params.kv_blocks;
  }
  __device__ __forceinline__ float const* query(MaskScoresParams const& params, int line) const {
    return params.pooled_q + (group * params.group_rows + row + line) * params.head_dim;
  }
  __device__ __forceinline__ float const* key(MaskScoresParams const& params, int line) const {
    return params.pooled_k + (group * params.kv_blocks + column + line) * params.head_dim;
  }
};

/// Powers of two keep every value well inside f16. In channel d, keys are multiplied by 2^top / size, where size is that of the
/// largest centred key of the head there, and queries by size and by what takes the largest of their row to 2^top. So in every
/// channel some key is near 2^top, in every row some query, and what is rounded off the small ones is far below the rounding
/// of the largest product.
inline constexpr int split_top = 14;

template <int head_dim>
class MaskScoreOperands {
public:
  static constexpr int threads = 256;
  static constexpr int q_bytes = RowLayout::tile_rows * head_dim * 2,
                       k_bytes = RowLayout::tile_columns * head_dim * 2;
  static constexpr int q_high = 0, q_low = q_bytes, k_high = 2 * q_bytes, k_low = k_high + k_bytes;
  static constexpr std::int64_t smem_bytes = k_low + k_bytes;

  /// Whether everything this thread has read is finite. Rows and columns that do not exist are zeros. `row_factor` takes a sum
  /// of products back to a score.
  static __device__ __forceinline__ bool stage(MaskScoresParams const& params, ScoreTile const& tile,
                                               unsigned char* smem, float* row_factor) {
    MaskScoreOperands const work(params, tile);
    float zero = 0;  // NaN as soon as 0 times anything is
    work.stage_queries(params, tile, smem, row_factor, zero);
    work.stage_keys(params, tile, smem, zero);
    return zero == 0;
  }

private:
  using Tile = SwizzledTile<head_dim>;
  static constexpr int channels = 8;                     ///< of a thread: one chunk of f16
  static constexpr int row_lanes = head_dim / channels;  ///< threads that share a row
  static constexpr int lines = threads / row_lanes;      ///< rows or columns at once
  static constexpr int loads = head_dim / 32;            ///< rows in flight

  struct Line {
    float x[channels];
  };

  __device__ __forceinline__ MaskScoreOperands(MaskScoresParams const& params, ScoreTile const& tile)
      : chunk_(static_cast<int>(threadIdx.x) % row_lanes), line_(static_cast<int>(threadIdx.x) / row_lanes) {
    std::int64_t const first = tile.group * params.head_dim + chunk_ * channels;
    mean_ = read(params.key_mean + first);
    size_ = read(params.key_size + first);
  }

  __device__ __forceinline__ void stage_queries(MaskScoresParams const& params, ScoreTile const& tile,
                                                unsigned char* smem, float* row_factor, float& zero) const {
    Line q[RowLayout::tile_rows / lines];
#pragma unroll
    for (int i = 0; i < RowLayout::tile_rows / lines; ++i)
      q[i] = tile.has_row(params, line_ + i * lines)
                 ? read(tile.query(params, line_ + i * lines) + chunk_ * channels)
                 : Line{};
#pragma unroll
    for (int i = 0; i < RowLayout::tile_rows / lines; ++i) {
#pragma unroll
      for (int c = 0; c < channels; ++c) q[i].x[c] *= size_.x[c];
      float const factor = power_of_two(min(split_top - largest_exponent(q[i]), 126));
      if (chunk_ == 0) row_factor[line_ + i * lines] = back_factor(params.scale, factor);
#pragma unroll
      for (int c = 0; c < channels; ++c) {
        zero = fmaf(q[i].x[c], 0.0f, zero);
        q[i].x[c] *= factor;
      }
      put(smem + q_high, smem + q_low, line_ + i * lines, q[i]);
    }
  }

  __device__ __forceinline__ void stage_keys(MaskScoresParams const& params, ScoreTile const& tile,
                                             unsigned char* smem, float& zero) const {
#pragma unroll
    for (int first = 0; first < RowLayout::tile_columns; first += loads * lines) {
      Line k[loads];
#pragma unroll
      for (int i = 0; i < loads; ++i)
        k[i] = tile.has_column(params, line_ + first + i * lines)
                   ? read(tile.key(params, line_ + first + i * lines) + chunk_ * channels)
                   : mean_;  // where that is not finite, no tile of the head is
#pragma unroll
      for (int i = 0; i < loads; ++i) {
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          k[i].x[c] -= mean_.x[c];
          zero = fmaf(k[i].x[c], 0.0f, zero);
          k[i].x[c] *= divide_power(split_top, size_.x[c]);
        }
        put(smem + k_high, smem + k_low, line_ + first + i * lines, k[i]);
      }
    }
  }

  /// Over the threads that share the row.
  static __device__ __forceinline__ int largest_exponent(Line const& q) {
    float largest = 0;
#pragma unroll
    for (int c = 0; c < channels; ++c) largest = fmaxf(largest, fabsf(q.x[c]));
#pragma unroll
    for (int offset = 1; offset < row_lanes; offset *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    return exponent_of(largest);
  }

  /// Infinity times a sum of 0 would be NaN.
  static __device__ __forceinline__ float back_factor(float scale, float factor) {
    return fminf(scale * divide_power(-split_top, factor), 3.4028235e38f);
  }

  __device__ __forceinline__ void put(unsigned char* high, unsigned char* low, int line,
                                      Line const& values) const {
    SplitPair pair[channels / 2];
#pragma unroll
    for (int c = 0; c < channels; c += 2) pair[c / 2] = split(values.x[c], values.x[c + 1]);
    int const offset = Tile::offset(line, chunk_);
    *reinterpret_cast<uint4*>(high + offset) =
        make_uint4(pair[0].high, pair[1].high, pair[2].high, pair[3].high);
    *reinterpret_cast<uint4*>(low + offset) = make_uint4(pair[0].low, pair[1].low, pair[2].low, pair[3].low);
  }

  static __device__ __forceinline__ Line read(float const* from) {
    float4 const a = __ldg(reinterpret_cast<float4 const*>(from)),
                 b = __ldg(reinterpret_cast<float4 const*>(from) + 1);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }

  int chunk_, line_;
  Line mean_, size_;
};

}  // namespace sparge
