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
  /// Of what each warp has.
  __device__ __forceinline__ PackedTally sum(PackedTally of_warp) const {
    return across(of_warp, [](auto a, auto b) { return a + b; });
  }

  /// Over one warp: blocks, and mass as 2^15 high + low. A lane brings at most 64 blocks of at most 2^31.
  static __device__ __forceinline__ PackedTally warp_tally(int blocks, int high, int low) {
    auto const sum = [](int value) { return __reduce_add_sync(all_lanes, value); };
    return (static_cast<PackedTally>(sum(blocks)) << tally_mass_bits) +
           (static_cast<PackedTally>(sum(high)) << 15) + static_cast<PackedTally>(std::int64_t{sum(low)});
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
