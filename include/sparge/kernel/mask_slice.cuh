#pragma once
/// The mask of a shard, cut out of a whole one on block borders.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

/// A thread a word: it lies in at most two words of the whole row.
class MaskSlice {
public:
  using Params = MaskSliceParams;
  static constexpr int threads = slice_threads, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const index = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    std::int64_t const shard_row = index / params.shard_words, word = index % params.shard_words;
    std::int64_t const head = shard_row / params.q.count;
    if (head >= params.heads) return;
    std::int64_t const row = head * params.q_blocks + params.q.first + shard_row % params.q.count;
    params.shard[index] =
        cut(params.mask + row * params.row_words, params.kv.first + 32 * word, params.kv.count - 32 * word);
  }

private:
  /// Bits [first, first + 32) of a row, those from `count` on cleared. `count` > 0, and the row has that many.
  static __device__ __forceinline__ std::uint32_t cut(std::uint32_t const* row, std::int64_t first,
                                                      std::int64_t count) {
    int const shift = static_cast<int>(first % 32);
    std::int64_t const word = first / 32;
    bool const reaches_next = shift + count > 32 && shift > 0;
    std::uint32_t const bits = __funnelshift_r(row[word], reaches_next ? row[word + 1] : 0, shift);
    return count >= 32 ? bits : bits & ((1u << count) - 1);
  }
};

SPARGE_INLINE cudaError_t launch_mask_slice(MaskSliceParams const& params, cudaStream_t stream) noexcept {
  return launch<MaskSlice>(
      params, ceil_div(params.heads * params.q.count * params.shard_words, slice_threads), 0, stream);
}

}  // namespace sparge
