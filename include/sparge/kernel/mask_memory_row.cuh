#pragma once
/// One row of scores that stays in memory, in the hands of one warp: for rows that hold scores that are not finite where the
/// rule looks at them. Slow, and without scratch: it is there for networks that diverge.

#include <cstdint>

#include "sparge/kernel/mask_row.cuh"

namespace sparge {

/// As RankedRow, but keys and masses are made again whenever they are asked for.
class MemoryRow {
public:
  __device__ __forceinline__ MemoryRow(std::uint32_t const* scores, int blocks)
      : scores_(scores), blocks_(blocks), largest_(largest_score()), all_(tally(0)) {}

  __device__ __forceinline__ Tally all() const { return all_; }
  __device__ __forceinline__ int blocks() const { return blocks_; }
  /// Key 0 past the row.
  __device__ __forceinline__ std::uint32_t key(int block) const {
    return block < blocks_ ? ranking_key(score(block)) : 0;
  }

  __device__ __forceinline__ Tally tally(std::uint32_t key) const {
    unsigned blocks = 0;
    std::uint64_t mass = 0;
#pragma unroll 1
    for (int i = lane_index(); i < blocks_; i += 32) {
      if (ranking_key(score(i)) < key) continue;
      ++blocks;
      mass += softmax_mass(score(i), largest_);
    }
    return {__reduce_add_sync(all_lanes, blocks), warp_sum(mass)};
  }

  __device__ __forceinline__ std::uint32_t largest_up_to(std::uint32_t key) const {
    std::uint32_t largest = 0;
#pragma unroll 1
    for (int i = lane_index(); i < blocks_; i += 32) {
      std::uint32_t const k = ranking_key(score(i));
      if (k <= key && k > largest) largest = k;
    }
    return __reduce_max_sync(all_lanes, largest);
  }

private:
  __device__ __forceinline__ float score(int block) const { return __uint_as_float(scores_[block]); }

  __device__ __forceinline__ float largest_score() const {
    float largest = -infinity();
#pragma unroll 1
    for (int i = lane_index(); i < blocks_; i += 32) largest = fmaxf(largest, score(i));
    return warp_max(largest);
  }

  std::uint32_t const* scores_;
  int blocks_;
  float largest_;
  Tally all_;
};

}  // namespace sparge
