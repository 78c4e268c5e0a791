#pragma once
/// Scores of pooled queries against centred pooled keys: scale * <q, k - mean>, in f32 throughout.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/fragment.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A thread block scores one row tile against `tile_columns` key blocks; a thread 4 rows against two runs of 4 columns.
/// Products are summed over 16 channels first and those sums added up, which keeps the rounding of a score near
/// 2^-22 * sum |q||k - mean|.
class MaskScores {
public:
  using Params = MaskScoresParams;
  static constexpr int threads = 256, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    __shared__ Slices slices[2];
    MaskScores work(params);
    work.load(0);
    float score[4][8] = {};
    for (int chunk = 0; chunk * channels < params.head_dim; ++chunk) {
      Slices& slice = slices[chunk % 2];
      work.stage(slice);
      __syncthreads();  // one barrier will do: the other slice is not written before everyone has passed the next one
      if ((chunk + 1) * channels < params.head_dim) work.load((chunk + 1) * channels);
      accumulate(slice, score);
    }
    work.store(score);
  }

private:
  static constexpr int tile_rows = RowLayout::tile_rows, tile_columns = RowLayout::tile_columns;
  static constexpr int channels = 16;  ///< of a slice
  static constexpr int quads = channels / 4;

  /// 16 channels of a tile's rows and columns, channel by channel. The padding keeps rows 16-byte aligned.
  struct Slices {
    float q[channels][tile_rows + 4];
    float k[channels][tile_columns + 4];
  };

  /// Rows and columns that do not exist are read as zeros.
  __device__ __forceinline__ explicit MaskScores(Params const& params) : params_(params) {
    std::int64_t const column_tiles = params.pitch / tile_columns;
    chunk_tile_ = blockIdx.x / column_tiles;
    column_ = blockIdx.x % column_tiles * tile_columns;
    std::int64_t const tile = params.chunk.first_tile + chunk_tile_;
    std::int64_t const group = tile / params.group_tiles, row = tile % params.group_tiles * tile_rows;
    int const thread = static_cast<int>(threadIdx.x), line = thread / quads;
    channel_ = thread % quads * 4;
    has_row_ = row + line < params.group_rows;
    q_ = params.pooled_q + (group * params.group_rows + row + line) * params.head_dim + channel_;
    k_ = params.pooled_k + (group * params.kv_blocks + column_ + line) * params.head_dim + channel_;
    mean_ = params.key_mean + group * params.head_dim + channel_;
    columns_left_ = static_cast<int>(params.kv_blocks - column_) - line;
  }

  /// Reads this thread's part of the slice that starts at channel `first` into registers.
  __device__ __forceinline__ void load(int first) {
    constexpr float4 zeros{0, 0, 0, 0};
    in_q_ = has_row_ ? read(q_ + first) : zeros;
    float4 const mean = read(mean_ + first);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      in_k_[half] = half * 64 < columns_left_
                        ? minus(read(k_ + half * std::int64_t{64} * params_.head_dim + first), mean)
                        : zeros;
  }

  __device__ __forceinline__ void stage(Slices& slice) const {
    int const line = static_cast<int>(threadIdx.x) / quads;
    put(&slice.q[channel_][line], tile_rows + 4, in_q_);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      put(&slice.k[channel_][line + half * 64], tile_columns + 4, in_k_[half]);
  }

  static __device__ __forceinline__ void accumulate(Slices const& slice, float (&score)[4][8]) {
    float sum[4][8] = {};
    int const row = static_cast<int>(threadIdx.x) / 16 * 4, column = static_cast<int>(threadIdx.x) % 16 * 4;
#pragma unroll 8  // all 16 at once would spill
    for (int c = 0; c < channels; ++c) {
      float4 const q = read(&slice.q[c][row]), k0 = read(&slice.k[c][column]),
                   k1 = read(&slice.k[c][column + 64]);
      float const rows[4] = {q.x, q.y, q.z, q.w};
      float const columns[8] = {k0.x, k0.y, k0.z, k0.w, k1.x, k1.y, k1.z, k1.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(rows[i], columns[j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 8; ++j) score[i][j] += sum[i][j];
  }

  /// Writes the whole tile, padding included.
  __device__ __forceinline__ void store(float const (&score)[4][8]) const {
    int const row = static_cast<int>(threadIdx.x) / 16 * 4, column = static_cast<int>(threadIdx.x) % 16 * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float const* const s = &score[i][4 * half];
        std::uint32_t* const out = params_.scores + (chunk_tile_ * tile_rows + row + i) * params_.pitch +
                                   column_ + column + half * 64;
        *reinterpret_cast<uint4*>(out) = make_uint4(bits(s[0]), bits(s[1]), bits(s[2]), bits(s[3]));
      }
  }

  __device__ __forceinline__ std::uint32_t bits(float score) const {
    return __float_as_uint(params_.scale * score);
  }

  static __device__ __forceinline__ float4 read(float const* from) {
    return *reinterpret_cast<float4 const*>(from);
  }
  static __device__ __forceinline__ void put(float* to, int step, float4 value) {
    to[0] = value.x, to[step] = value.y, to[2 * step] = value.z, to[3 * step] = value.w;
  }
  static __device__ __forceinline__ float4 minus(float4 a, float4 b) {
    return make_float4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w);
  }

  Params const& params_;
  float const *q_, *k_, *mean_;
  std::int64_t chunk_tile_, column_;
  int channel_, columns_left_;
  bool has_row_;
  float4 in_q_, in_k_[2];
};

SPARGE_INLINE cudaError_t launch_mask_scores(MaskScoresParams const& params, cudaStream_t stream) noexcept {
  return launch<MaskScores>(params, params.chunk.tiles * (params.pitch / RowLayout::tile_columns), 0, stream);
}

}  // namespace sparge
