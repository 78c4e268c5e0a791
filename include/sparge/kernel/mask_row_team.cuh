#pragma once
/// The warps that hold one row of scores in their registers, and reductions over all of their lanes.

#include <cstdint>

#include "sparge/device/warp.cuh"
#include "sparge/kernel/mask_rule.cuh"
#include "sparge/kernel/mask_search.cuh"

namespace sparge {

/// Blocks and mass of a set in one word, so that both are added at once: room for 2^15 blocks of 2^31 each.
using PackedTally = std::uint64_t;
inline constexpr int tally_mass_bits = 48;

__host__ __device__ inline PackedTally pack_block(std::uint32_t mass) {
  return (PackedTally{1} << tally_mass_bits) + mass;
}

__host__ __device__ inline Tally unpack(PackedTally tally) {
  return {static_cast<std::int64_t>(tally >> tally_mass_bits),
          tally & ((PackedTally{1} << tally_mass_bits) - 1)};
}

/// One warp, or all warps of a thread block, which then meet at barriers: all of their threads make the same calls.
template <int warps>
class RowTeam {
public:
  static constexpr int threads = 32 * warps;

  /// What a row shares: results of warps, and the few blocks among which the end of the prefix lies.
  struct Storage {
    PackedTally of_warp[warps];
    alignas(16) uint2 candidate[few_blocks];  ///< key and mass
    std::uint32_t candidates;
  };

  __device__ __forceinline__ explicit RowTeam(Storage& storage) : storage_(storage) {}

  __device__ __forceinline__ Storage& storage() const { return storage_; }
  __device__ __forceinline__ static int warp() { return warps == 1 ? 0 : warp_index(); }
  __device__ __forceinline__ static int thread() { return 32 * warp() + lane_index(); }

  __device__ __forceinline__ static void synchronize() {
    if constexpr (warps == 1)
      __syncwarp();
    else
      __syncthreads();
  }

  __device__ __forceinline__ std::uint32_t max(std::uint32_t value) const {
    return across(__reduce_max_sync(all_lanes, value), [](auto a, auto b) { return a > b ? a : b; });
  }
  __device__ __forceinline__ std::uint32_t min(std::uint32_t value) const {
    return across(__reduce_min_sync(all_lanes, value), [](auto a, auto b) { return a < b ? a : b; });
  }
  __device__ __forceinline__ std::uint32_t sum(std::uint32_t value) const {
    return across(__reduce_add_sync(all_lanes, value), [](auto a, auto b) { return a + b; });
  }
  /// Of blocks and masses of lanes; a lane brings at most 64 blocks.
  __device__ __forceinline__ Tally tally(int blocks, std::uint64_t mass) const {
    auto const sum = [](std::uint32_t value) { return __reduce_add_sync(all_lanes, value); };
    PackedTally const of_warp = (PackedTally{sum(static_cast<std::uint32_t>(blocks))} << tally_mass_bits) +
                                (PackedTally{sum(static_cast<std::uint32_t>(mass >> 16))} << 16) +
                                sum(static_cast<std::uint32_t>(mass) & 0xffff);
    return unpack(across(of_warp, [](auto a, auto b) { return a + b; }));
  }
  /// What the first warp has; one value a warp.
  __device__ __forceinline__ float first(float of_warp) const {
    return __uint_as_float(across(__float_as_uint(of_warp), [](auto a, auto) { return a; }));
  }

  /// Places for as many candidates as there are bits in the ballot of a warp, of which `taken` went before; the first of them.
  __device__ __forceinline__ int reserve(unsigned ballot, int& taken) const {
    if constexpr (warps == 1) {
      int const place = taken;
      taken += __popc(ballot);
      return place;
    } else {
      int place = 0;
      if (lane_index() == 0)
        place = static_cast<int>(atomicAdd(&storage_.candidates, static_cast<std::uint32_t>(__popc(ballot))));
      return __shfl_sync(all_lanes, place, 0);
    }
  }

private:
  template <class Value, class Combine>
  __device__ __forceinline__ Value across(Value value, Combine combine) const {
    if constexpr (warps > 1) {
      __syncthreads();  // the results of the last reduction have been read
      if (lane_index() == 0) storage_.of_warp[warp_index()] = value;
      __syncthreads();
      value = static_cast<Value>(storage_.of_warp[0]);
#pragma unroll
      for (int warp = 1; warp < warps; ++warp)
        value = combine(value, static_cast<Value>(storage_.of_warp[warp]));
    }
    return value;
  }

  Storage& storage_;
};

}  // namespace sparge
