#pragma once
/// The warps that hold one row of scores in their registers, and reductions over all of their lanes.

#include <cstdint>

#include "sparge/device/warp.cuh"
#include "sparge/kernel/mask_rule.cuh"

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
  /// What a row shares: results of warps, and the few blocks among which the end of the prefix lies.
  struct Storage {
    PackedTally of_warp[warps];
    uint2 candidate[32];  ///< key and mass
    std::uint32_t candidates;
  };

  __device__ __forceinline__ explicit RowTeam(Storage& storage) : storage_(storage) {}

  __device__ __forceinline__ Storage& storage() const { return storage_; }
  __device__ __forceinline__ static int warp() { return warps == 1 ? 0 : warp_index(); }
  __device__ __forceinline__ static bool is_first_thread() { return lane_index() == 0 && warp() == 0; }

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
  /// A lane brings at most 64 blocks.
  __device__ __forceinline__ PackedTally sum(PackedTally tally) const {
    return across(warp_tally(tally), [](auto a, auto b) { return a + b; });
  }

  /// Over one warp, in two sums of 32 bits: a lane's mass is at most 2^37, so its upper part is at most 2^11.
  static __device__ __forceinline__ PackedTally warp_tally(PackedTally tally) {
    constexpr int low_bits = 26;
    std::uint32_t const low = static_cast<std::uint32_t>(tally) & ((1u << low_bits) - 1);
    std::uint32_t const middle =
        static_cast<std::uint32_t>(tally >> low_bits) & ((1u << (tally_mass_bits - low_bits)) - 1);
    std::uint32_t const blocks = static_cast<std::uint32_t>(tally >> tally_mass_bits);
    std::uint32_t const upper = __reduce_add_sync(all_lanes, middle | blocks << 18);
    return (PackedTally{upper >> 18} << tally_mass_bits) + (PackedTally{upper & 0x3ffff} << low_bits) +
           __reduce_add_sync(all_lanes, low);
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
