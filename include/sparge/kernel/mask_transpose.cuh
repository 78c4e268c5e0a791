#pragma once
/// Mask bits by key block instead of by query block.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// One warp transposes one tile of 32 x 32 bits: a lane reads the word of one query block and writes that of one key block.
class MaskTranspose {
public:
  using Params = MaskTransposeParams;
  static constexpr int threads = 32 * form_warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const tile = grid_warp(form_warps);
    std::int64_t const word = tile % params.row_words, head_column = tile / params.row_words;
    std::int64_t const column = head_column % params.column_words, head = head_column / params.column_words;
    if (head >= params.heads) return;
    std::int64_t const q_block = 32 * column + lane_index(), kv_block = 32 * word + lane_index();
    std::uint32_t const bits = q_block < params.q_blocks
                                   ? params.mask[(head * params.q_blocks + q_block) * params.row_words + word]
                                   : 0;
    std::uint32_t transposed = 0;
#pragma unroll
    for (int bit = 0; bit < 32; ++bit) {
      unsigned const column_bits = __ballot_sync(all_lanes, bits >> bit & 1);
      if (bit == lane_index()) transposed = column_bits;
    }
    if (kv_block < params.kv_blocks)
      params.transposed[(head * params.kv_blocks + kv_block) * params.column_words + column] = transposed;
  }
};

SPARGE_INLINE cudaError_t launch_mask_transpose(MaskTransposeParams const& params,
                                                cudaStream_t stream) noexcept {
  std::int64_t const tiles = params.heads * params.row_words * params.column_words;
  return launch<MaskTranspose>(params, ceil_div(tiles, form_warps), 0, stream);
}

}  // namespace sparge
