#pragma once
/// The operands of scores, each split into two f16 values: keys by a kernel of their own, queries in the registers that
/// multiply them.

#include <cstdint>

#include "sparge/device/fragment.cuh"
#include "sparge/device/split.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// Powers of two keep every value well inside f16. In channel d, keys are multiplied by 2^top / size, where size is that of the
/// largest centred key of the head there, and queries by size and by what takes the largest of their row to 2^top. So in every
/// channel some key is near 2^top, in every row some query, and what is rounded off the small ones is far below the rounding
/// of the largest product. What is not finite stays so in one of its parts.
inline constexpr int split_top = 14;

struct EightChannels {
  float x[8];

  static __device__ __forceinline__ EightChannels read(float const* from) {
    float4 const a = __ldg(reinterpret_cast<float4 const*>(from)),
                 b = __ldg(reinterpret_cast<float4 const*>(from) + 1);
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
};

/// Queries as the A operands of one warp's products, `row_tiles` times 16 of them, and what takes a sum of products of each
/// back to a score. A lane holds parts of two rows of a tile.
template <int head_dim, int row_tiles>
class SplitQueries {
public:
  static constexpr int rows = 16 * row_tiles, steps = head_dim / 16;

  std::uint32_t high[row_tiles][steps][4], low[row_tiles][steps][4];
  float back_factor[row_tiles][2];

  /// Row of the warp's.
  static __device__ __forceinline__ int row(int tile, int r) { return 16 * tile + 8 * r + lane_index() / 4; }

  /// The first `existing` rows exist, if any; the others are zeros.
  __device__ __forceinline__ void load(float const* queries, int existing, float const* key_size,
                                       float scale) {
    int const channel = 2 * (lane_index() % 4);
#pragma unroll
    for (int tile = 0; tile < row_tiles; ++tile)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        bool const exists = row(tile, r) < existing;
        float const* const query = queries + row(tile, r) * head_dim + channel;
        float2 x[head_dim / 8];
#pragma unroll
        for (int c = 0; c < head_dim / 8; ++c)
          x[c] = exists ? __ldg(reinterpret_cast<float2 const*>(query + 8 * c)) : make_float2(0, 0);
        load_row(x, key_size + channel, scale, tile, r);
      }
  }

private:
  __device__ __forceinline__ void load_row(float2 (&x)[head_dim / 8], float const* key_size, float scale,
                                           int tile, int r) {
    float largest = 0;
#pragma unroll
    for (int c = 0; c < head_dim / 8; ++c) {
      float2 const size = __ldg(reinterpret_cast<float2 const*>(key_size + 8 * c));
      x[c].x *= size.x, x[c].y *= size.y;
      largest = fmaxf(largest, fmaxf(fabsf(x[c].x), fabsf(x[c].y)));
    }
    largest = reduce_row(largest, [](float a, float b) { return fmaxf(a, b); });
    float const factor = power_of_two(min(split_top - exponent_of(largest), 126));
    // Infinity times a sum of 0 would be NaN.
    back_factor[tile][r] = fminf(scale * divide_power(-split_top, factor), 3.4028235e38f);
#pragma unroll
    for (int c = 0; c < head_dim / 8; ++c) {
      SplitPair const pair = split(x[c].x * factor, x[c].y * factor);
      high[tile][c / 2][c % 2 * 2 + r] = pair.high;
      low[tile][c / 2][c % 2 * 2 + r] = pair.low;
    }
  }
};

}  // namespace sparge
