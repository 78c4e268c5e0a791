#pragma once
/// What a mask keeps and who asks for it: one record a row, then sums over the rows of each head.

#include <cub/block/block_reduce.cuh>

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/kernel/launch.cuh"
#include "sparge/kernel/mask_row.cuh"

namespace sparge {

/// One warp a row.
class MaskRowStats {
public:
  using Params = MaskRowStatsParams;
  static constexpr int threads = 32 * RowLayout::row_warps, ctas_per_sm = 6;
  static constexpr std::int64_t most_smem_bytes = RowLayout::most_shared_bytes;

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    RowPosition const at = RowPosition::of_warp(params.rows);
    if (!at.exists) return;
    RankedRow const row(params.rows, at, smem);
    RowGoals const goals(params.rows, at, row.all());
    count(params, at, row, PrefixWalk(find_prefix_end(row, row.all(), goals.top_k)),
          PrefixWalk(find_prefix_end(row, row.all(), goals.top_p)));
  }

private:
  static __device__ __forceinline__ void count(Params const& params, RowPosition const& at,
                                               RankedRow const& row, PrefixWalk by_k, PrefixWalk by_p) {
    RowStats stats{};
    std::uint64_t mass = 0;
    std::uint32_t const* const words = params.mask + at.row * params.rows.row_words;
    for (int word = 0; word < params.rows.row_words; ++word) {
      int const block = 32 * word + lane_index();
      bool const exists = block < row.blocks(), kept = exists && words[word] >> lane_index() & 1;
      bool const k = by_k.step(row.key(block), exists), p = by_p.step(row.key(block), exists);
      stats.kept += __popc(__ballot_sync(all_lanes, kept));
      stats.by_both += __popc(__ballot_sync(all_lanes, kept && k && p));
      stats.by_top_k += __popc(__ballot_sync(all_lanes, kept && k && !p));
      stats.by_top_p += __popc(__ballot_sync(all_lanes, kept && p && !k));
      mass += kept ? row.mass(block) : 0;
    }
    mass = warp_sum(mass);
    std::uint64_t const all = row.all().mass;
    stats.mass = all == 0 ? 0.0 : static_cast<double>(mass) / static_cast<double>(all);
    if (lane_index() == 0) params.stats[at.row] = stats;
  }
};

/// One thread block a head; the order of additions is fixed.
class MaskStatsSum {
public:
  using Params = MaskStatsSumParams;
  static constexpr int threads = 256, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    using Reduce = cub::BlockReduce<MaskStats, threads>;
    __shared__ typename Reduce::TempStorage storage;
    std::int64_t const head = blockIdx.x;
    MaskStats sum{};
    for (std::int64_t row = threadIdx.x; row < params.rows_per_head; row += threads)
      sum = Add{}(sum, of_row(params.rows[head * params.rows_per_head + row]));
    sum = Reduce(storage).Reduce(sum, Add{});
    if (threadIdx.x != 0) return;
    sum.all_pairs = params.rows_per_head * params.kv_blocks;
    if (params.rows_per_head > 0) sum.pooled_mass /= static_cast<double>(params.rows_per_head);
    params.stats[head] = sum;
  }

private:
  static __device__ __forceinline__ MaskStats of_row(RowStats const& row) {
    MaskStats stats{};
    stats.kept_pairs = row.kept;
    stats.owed_to_both = row.by_both;
    stats.owed_to_top_k = row.by_top_k;
    stats.owed_to_top_p = row.by_top_p;
    stats.owed_to_force = row.kept - row.by_both - row.by_top_k - row.by_top_p;
    stats.pooled_mass = row.mass;
    return stats;
  }

  struct Add {
    __device__ __forceinline__ MaskStats operator()(MaskStats const& a, MaskStats const& b) const {
      return {a.kept_pairs + b.kept_pairs,       a.all_pairs + b.all_pairs,
              a.owed_to_both + b.owed_to_both,   a.owed_to_top_k + b.owed_to_top_k,
              a.owed_to_top_p + b.owed_to_top_p, a.owed_to_force + b.owed_to_force,
              a.pooled_mass + b.pooled_mass};
    }
  };
};

SPARGE_INLINE cudaError_t launch_mask_row_stats(MaskRowStatsParams const& params, RowLayout const& layout,
                                                cudaStream_t stream) noexcept {
  return launch<MaskRowStats>(params, row_grid_blocks(params.rows.chunk), layout.shared_bytes(), stream);
}

SPARGE_INLINE cudaError_t launch_mask_stats_sum(MaskStatsSumParams const& params, std::int64_t heads,
                                                cudaStream_t stream) noexcept {
  return launch<MaskStatsSum>(params, heads, 0, stream);
}

}  // namespace sparge
