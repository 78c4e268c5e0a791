#pragma once
/// Mask bits to and from bytes, and to and from padded lists of block indices.

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_params.hpp"

namespace sparge {

template <class Word, class Other>
struct MaskFormKernelParams : MaskFormParams {
  Word* mask = nullptr;
  Other other{};
};

/// One warp a mask word, a lane a byte: bytes may have any alignment and rows any length.
class MaskToBytes {
public:
  using Params = MaskFormKernelParams<std::uint32_t const, std::uint8_t*>;
  static constexpr int threads = 32 * form_warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const word = grid_warp(form_warps);
    std::int64_t const row = word / params.row_words;
    std::int64_t const block = 32 * (word % params.row_words) + lane_index();
    if (row < params.rows && block < params.kv_blocks)
      params.other[row * params.kv_blocks + block] = params.mask[word] >> lane_index() & 1;
  }
};

class MaskFromBytes {
public:
  using Params = MaskFormKernelParams<std::uint32_t, std::uint8_t const*>;
  static constexpr int threads = 32 * form_warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const word = grid_warp(form_warps);
    std::int64_t const row = word / params.row_words;
    std::int64_t const block = 32 * (word % params.row_words) + lane_index();
    if (row >= params.rows) return;
    bool const kept = block < params.kv_blocks && params.other[row * params.kv_blocks + block] != 0;
    unsigned const bits = __ballot_sync(all_lanes, kept);
    if (lane_index() == 0) params.mask[word] = bits;
  }
};

/// One warp a row: indices ascend, entries past the count are -1.
class MaskToLists {
public:
  using Params = MaskFormKernelParams<std::uint32_t const, BlockListsOut>;
  static constexpr int threads = 32 * form_warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const row = grid_warp(form_warps);
    if (row >= params.rows) return;
    std::int32_t* const list = params.other.indices + row * params.other.capacity;
    std::int64_t count = 0;
    for (std::int64_t word = 0; word < params.row_words; ++word) {
      std::int64_t const block = 32 * word + lane_index();
      bool const kept =
          block < params.kv_blocks && (params.mask[row * params.row_words + word] >> lane_index() & 1) != 0;
      unsigned const bits = __ballot_sync(all_lanes, kept);
      if (kept) list[count + count_lower_lanes(bits)] = static_cast<std::int32_t>(block);
      count += __popc(bits);
    }
    for (std::int64_t entry = count + lane_index(); entry < params.other.capacity; entry += 32)
      list[entry] = -1;
    if (lane_index() == 0) params.other.counts[row] = static_cast<std::int32_t>(count);
  }
};

/// One warp a row. Entries come in any order, so bits are OR-ed into words that were cleared first.
class MaskFromLists {
public:
  using Params = MaskFormKernelParams<std::uint32_t, BlockListsView>;
  static constexpr int threads = 32 * form_warps, ctas_per_sm = 4;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const row = grid_warp(form_warps);
    if (row >= params.rows) return;
    std::uint32_t* const words = params.mask + row * params.row_words;
    for (std::int64_t word = lane_index(); word < params.row_words; word += 32) words[word] = 0;
    __syncwarp();
    std::int32_t const* const list = params.other.indices + row * params.other.capacity;
    std::int64_t const asked = params.other.counts[row];
    std::int64_t const count = asked < params.other.capacity ? asked : params.other.capacity;
    for (std::int64_t entry = lane_index(); entry < count; entry += 32) {
      std::int32_t const block = list[entry];
      if (block >= 0 && block < params.kv_blocks) atomicOr(&words[block / 32], 1u << (block % 32));
    }
  }
};

SPARGE_INLINE cudaError_t launch_mask_to_bytes(MaskFormParams const& params, std::uint32_t const* mask,
                                               std::uint8_t* bytes, cudaStream_t stream) noexcept {
  return launch<MaskToBytes>({params, mask, bytes}, ceil_div(params.rows * params.row_words, form_warps), 0,
                             stream);
}

SPARGE_INLINE cudaError_t launch_mask_from_bytes(MaskFormParams const& params, std::uint8_t const* bytes,
                                                 std::uint32_t* mask, cudaStream_t stream) noexcept {
  return launch<MaskFromBytes>({params, mask, bytes}, ceil_div(params.rows * params.row_words, form_warps), 0,
                               stream);
}

SPARGE_INLINE cudaError_t launch_mask_to_lists(MaskFormParams const& params, std::uint32_t const* mask,
                                               BlockListsOut lists, cudaStream_t stream) noexcept {
  return launch<MaskToLists>({params, mask, lists}, ceil_div(params.rows, form_warps), 0, stream);
}

SPARGE_INLINE cudaError_t launch_mask_from_lists(MaskFormParams const& params, BlockListsView lists,
                                                 std::uint32_t* mask, cudaStream_t stream) noexcept {
  return launch<MaskFromLists>({params, mask, lists}, ceil_div(params.rows, form_warps), 0, stream);
}

}  // namespace sparge
