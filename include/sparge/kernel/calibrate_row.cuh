#pragma once
/// One row of scores in the hands of one thread block, sorted: every block then knows from which top_p on it is kept.

#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "sparge/kernel/calibrate_params.hpp"
#include "sparge/kernel/mask_row.cuh"
#include "sparge/kernel/mask_rule.cuh"

namespace sparge {

/// A block as a number that descends in the order of the rule: score, then index.
__host__ __device__ inline std::uint64_t pack_rank(float score, std::uint32_t block) {
  return static_cast<std::uint64_t>(ranking_key(score)) << 32 | (0xffffffffu - block);
}
__host__ __device__ inline std::uint32_t key_of_rank(std::uint64_t rank) {
  return static_cast<std::uint32_t>(rank >> 32);
}
__host__ __device__ inline std::uint32_t block_of_rank(std::uint64_t rank) {
  return 0xffffffffu - static_cast<std::uint32_t>(rank);
}

/// A pair of places of a sorting network, of which the first takes the larger value.
struct Comparator {
  std::uint32_t first, second;
};

/// The network merges descending runs of half of 2^run_log2 to runs of that length: first every place with its mirror image in the
/// run, then places at halved distances. All comparators point one way, so a network of more places than there are values
/// sorts as if the missing ones were the least, at the end.
__host__ __device__ inline Comparator mirror_comparator(std::uint32_t i, int run_log2) {
  std::uint32_t const half = 1u << (run_log2 - 1), begin = (i >> (run_log2 - 1)) << run_log2,
                      at = i & (half - 1);
  return {begin + at, begin + 2 * half - 1 - at};
}
__host__ __device__ inline Comparator distance_comparator(std::uint32_t i, int distance_log2) {
  std::uint32_t const distance = 1u << distance_log2;
  std::uint32_t const first = ((i >> distance_log2) << (distance_log2 + 1)) + (i & (distance - 1));
  return {first, first + distance};
}

/// Steps of top_p, 1 to top_p_steps, from which on the rule keeps a block with `before` of the row's mass ahead of it; more where no
/// top_p keeps it. The division finds the place to within a step; the rule itself decides.
__host__ __device__ inline std::int64_t least_top_p(std::uint64_t before, std::uint64_t row_mass) {
  if (row_mass == 0) return top_p_steps + 1;
  double const share = static_cast<double>(before) / static_cast<double>(row_mass);
  std::int64_t step = static_cast<std::int64_t>(share * static_cast<double>(top_p_steps)) - 1;
  if (step < 1) step = 1;
  while (step < top_p_steps &&
         top_p_goal(static_cast<double>(step) / static_cast<double>(top_p_steps), row_mass, 0).mass <= before)
    ++step;
  return step;
}

/// Part of a row's mass in units whose sum over the row is `unit_sum`, whatever is rounded.
__host__ __device__ inline std::uint64_t mass_units(std::uint64_t mass, std::uint64_t row_mass,
                                                    double unit_sum) {
  if (row_mass == 0) return 0;
  return static_cast<std::uint64_t>(
      rint(static_cast<double>(mass) * (unit_sum / static_cast<double>(row_mass))));
}

template <int threads>
class SortedRow {
public:
  using Scan = cub::BlockScan<std::uint64_t, threads, cub::BLOCK_SCAN_WARP_SCANS>;
  using Storage = typename Scan::TempStorage;
  static_assert(sizeof(Storage) <= CalibrateLayout::static_bytes);
  /// A prefix sum: of the threads before this one, and of all.
  struct Sums {
    std::uint64_t before, all;
  };

  __device__ __forceinline__ SortedRow(CalibrateRowsParams const& params, RowPosition const& at,
                                       unsigned char* smem, Storage& storage)
      : params_(params),
        storage_(storage),
        order_(params.order != nullptr ? params.order + at.slot * params.rows.pitch
                                       : reinterpret_cast<std::uint64_t*>(smem)),
        blocks_(params.rows.kv_blocks),
        q_block_(params.first_q_block + at.q_block(params.rows)),
        keeps_all_(keeps_every_block(params.rows.rule.keep, grid(), q_block_)) {
    std::uint32_t const* const scores = params.rows.scores + at.slot * params.rows.pitch;
    for (int i = static_cast<int>(threadIdx.x); i < blocks_; i += threads)
      order_[i] = pack_rank(__uint_as_float(scores[i]), static_cast<std::uint32_t>(i));
    __syncthreads();
    sort();
    largest_ = score_of(key_of_rank(order_[0]));
    std::uint64_t mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < blocks_; i += threads) mine += mass(i);
    mass_ = scan(mine).all;
  }

  /// Blocks and mass of the whole row.
  __device__ __forceinline__ Tally all() const { return {blocks_, mass_}; }

  /// Whether the keep rule forces the block of a rank.
  __device__ __forceinline__ bool is_forced(int rank) const {
    return keeps_all_ || is_forced_pair(params_.rows.rule.keep, grid(), q_block_,
                                        static_cast<std::int64_t>(block_of_rank(order_[rank])));
  }

  /// A block's mass in units of which a row has params.row_mass, given the mass ahead of it.
  __device__ __forceinline__ std::uint64_t units(std::uint64_t before, std::uint64_t mass) const {
    return mass_units(before + mass, mass_, params_.row_mass) - mass_units(before, mass_, params_.row_mass);
  }

  /// Calls visit(rank, exists, mass ahead of it, its mass) for every rank, side by side. All threads call, past the last rank too.
  template <class Visit>
  __device__ __forceinline__ void for_each(Visit visit) const {
    std::uint64_t ahead = 0;
    for (int first = 0; first < blocks_; first += threads) {
      int const rank = first + static_cast<int>(threadIdx.x);
      std::uint64_t const own = rank < blocks_ ? mass(rank) : 0;
      Sums const masses = scan(own);
      visit(rank, rank < blocks_, ahead + masses.before, own);
      ahead += masses.all;
    }
  }

  /// All threads call.
  __device__ __forceinline__ Sums scan(std::uint64_t value) const {
    Sums sums;
    __syncthreads();
    Scan(storage_).ExclusiveSum(value, sums.before, sums.all);
    return sums;
  }

private:
  __device__ __forceinline__ BlockGrid grid() const {
    return {params_.whole_q_tokens, params_.kv_tokens, params_.q_block, params_.kv_block};
  }
  __device__ __forceinline__ std::uint64_t mass(int rank) const {
    return softmax_mass(score_of(key_of_rank(order_[rank])), largest_);
  }

  __device__ __forceinline__ void put_in_order(Comparator c) {
    if (c.second >= static_cast<std::uint32_t>(blocks_)) return;
    std::uint64_t const first = order_[c.first], second = order_[c.second];
    if (first < second) order_[c.first] = second, order_[c.second] = first;
  }

  __device__ __forceinline__ void sort() {
    auto const blocks = static_cast<std::uint32_t>(blocks_);
    for (int run_log2 = 1; 1u << (run_log2 - 1) < blocks; ++run_log2) {
      std::uint32_t const comparators = (blocks + (1u << run_log2) - 1 >> run_log2) << (run_log2 - 1);
      for (std::uint32_t i = threadIdx.x; i < comparators; i += threads)
        put_in_order(mirror_comparator(i, run_log2));
      __syncthreads();
      for (int distance_log2 = run_log2 - 2; distance_log2 >= 0; --distance_log2) {
        for (std::uint32_t i = threadIdx.x; i < comparators; i += threads)
          put_in_order(distance_comparator(i, distance_log2));
        __syncthreads();
      }
    }
  }

  CalibrateRowsParams const& params_;
  Storage& storage_;
  std::uint64_t* order_;
  int blocks_;
  std::int64_t q_block_;
  bool keeps_all_;
  float largest_;
  std::uint64_t mass_;
};

}  // namespace sparge
