#pragma once
/// The search for top_p. What a row keeps grows with top_p, by a step at every block's own least top_p: a radix search over the steps of
/// all rows of a group, one digit a pass, ends at the exact candidate. Then one more pass counts what the found one keeps.
/// Sums are of integers, so they do not depend on the order of additions.

#include <cuda_runtime.h>
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "sparge/core/linkage.hpp"
#include "sparge/core/pending_error.hpp"
#include "sparge/kernel/calibrate_row.cuh"
#include "sparge/kernel/launch.cuh"

namespace sparge {

__device__ __forceinline__ void add_to(std::uint64_t& sum, std::uint64_t value) {
  if (value != 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&sum), static_cast<unsigned long long>(value));
}

constexpr std::int64_t most_sorted_bytes(int threads) {
  return threads == CalibrateLayout::wide_threads ? CalibrateLayout::most_wide_bytes
                                                  : CalibrateLayout::most_shared_bytes;
}

/// The histogram of a digit. A thread block a row.
template <int block_threads>
class CalibrateCount {
public:
  using Params = CalibrateCountParams;
  using Row = SortedRow<block_threads>;
  static constexpr int threads = block_threads, ctas_per_sm = 1024 / block_threads;  // at least 64 registers
  static constexpr std::int64_t most_smem_bytes = most_sorted_bytes(block_threads);

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    __shared__ typename Row::Storage storage;
    RowPosition const at(params.row.rows, blockIdx.x);
    if (!at.exists) return;
    Row const row(params.row, at, smem, storage);
    CalibrationGroup& group =
        params.groups[params.scope == CalibrationScope::all_heads ? 0 : at.head(params.row.rows)];
    count(params, RowGoals(params.row.rows, at, row.all()).top_k.blocks, row, group);
  }

private:
  /// Ranks ascend in their digits. Where a digit's run of ranks ends, what they keep so far counts for the digit and against the next
  /// one, so that a run adds its own weight with two additions.
  static __device__ __forceinline__ void count(Params const& params, std::int64_t n_k, Row const& row,
                                               CalibrationGroup& group) {
    std::uint64_t ahead = 0, kept_by_others = 0;
    std::int64_t const found = group.found;
    auto const digit_of = [&](std::uint64_t before) -> std::int64_t {
      std::int64_t const beyond = least_top_p(before, row.all().mass) - 1 - found;
      return beyond < 0 ? -1 : beyond >> params.digit_shift;
    };
    row.for_each([&](int rank, bool exists, std::uint64_t before, std::uint64_t mass) {
      bool const by_others = exists && (rank < n_k || row.is_forced(rank));
      std::uint64_t const own = !exists                                    ? 0
                                : params.goal == CalibrationGoal::sparsity ? 1
                                                                           : row.units(before, mass);
      kept_by_others += by_others ? own : 0;
      std::uint64_t const weight = by_others ? 0 : own;
      typename Row::Sums const sums = row.scan(weight);
      if (exists) {
        std::int64_t const digit = digit_of(before);
        std::int64_t const next = rank + 1 < row.all().blocks ? digit_of(before + mass) : top_p_digits;
        if (digit != next) {
          std::uint64_t const up_to = ahead + sums.before + weight;
          add_to_digit(group, digit, up_to);
          add_to_digit(group, next, 0 - up_to);
        }
      }
      ahead += sums.all;
    });
    if (!is_first_digit(params)) return;
    std::uint64_t const sum = row.scan(kept_by_others).all;
    if (threadIdx.x == 0) add_to(group.below, sum);
  }

  static __device__ __forceinline__ bool is_first_digit(Params const& params) {
    return params.digit_shift == top_p_bits - top_p_digit_bits;
  }
  static __device__ __forceinline__ void add_to_digit(CalibrationGroup& group, std::int64_t digit,
                                                      std::uint64_t value) {
    if (digit >= 0 && digit < top_p_digits) add_to(group.histogram[digit], value);
  }
};

/// A thread block a group, a thread a digit.
class CalibrateStep {
public:
  using Params = CalibrateStepParams;
  static constexpr int threads = top_p_digits, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    using Scan = cub::BlockScan<std::uint64_t, threads>;
    __shared__ typename Scan::TempStorage storage;
    CalibrationGroup& group = params.groups[blockIdx.x];
    int const digit = static_cast<int>(threadIdx.x);
    std::uint64_t const own = group.histogram[digit], below = group.below;
    bool const is_done = group.found == top_p_steps;
    group.histogram[digit] = 0;
    std::uint64_t up_to;
    Scan(storage).InclusiveSum(own, up_to);
    // Every thread has read `below` and `found` when this returns. What is kept only grows with the digit.
    int const within = __syncthreads_count(is_within(params, below + up_to));
    bool const is_chosen = digit == within || (within == threads && digit == threads - 1);
    if (is_chosen && !is_done) {
      group.below = below + up_to - (digit == within ? own : 0);
      group.found += static_cast<std::uint32_t>(within) << params.digit_shift;
    }
    __syncthreads();
    if (params.digit_shift == 0) write(params, group);
  }

private:
  /// Whether so much leaves room for a larger top_p.
  static __device__ __forceinline__ bool is_within(Params const& params, std::uint64_t kept) {
    double const amount = static_cast<double>(kept);
    return params.goal == CalibrationGoal::sparsity ? amount <= params.limit : amount < params.limit;
  }

  /// `found` is the largest top_p that is within the limit, if any is; a mass is reached one step later.
  static __device__ __forceinline__ void write(Params const& params, CalibrationGroup& group) {
    bool const within = is_within(params, group.below), is_mass = params.goal == CalibrationGoal::kept_mass;
    std::uint32_t const last = static_cast<std::uint32_t>(top_p_steps);
    std::uint32_t const step = is_mass && within && group.found < last ? group.found + 1 : group.found;
    float const top_p = static_cast<float>(step) / static_cast<float>(top_p_steps);
    bool const is_common = params.scope == CalibrationScope::all_heads;
    for (int i = static_cast<int>(threadIdx.x); i < (is_common ? params.heads : 1); i += threads)
      params.top_p_of_head[is_common ? i : static_cast<int>(blockIdx.x)] = top_p;
    if (threadIdx.x == 0) group.met = is_mass ? !within || group.found < last : within;
  }
};

/// What the whole rule and either part of it keep. A thread block a row.
template <int block_threads>
class CalibrateReportRows {
public:
  using Params = CalibrateReportRowsParams;
  using Row = SortedRow<block_threads>;
  static constexpr int threads = block_threads, ctas_per_sm = 1024 / block_threads;  // at least 64 registers
  static constexpr std::int64_t most_smem_bytes = most_sorted_bytes(block_threads);

  static __device__ __forceinline__ void run(Params const& params, unsigned char* smem) {
    __shared__ typename Row::Storage storage;
    RowPosition const at(params.row.rows, blockIdx.x);
    if (!at.exists) return;
    Row const row(params.row, at, smem, storage);
    RowGoals const goals(params.row.rows, at, row.all());
    CalibrationTally mine{};
    row.for_each([&](int rank, bool exists, std::uint64_t before, std::uint64_t mass) {
      if (!exists) return;
      bool const forced = row.is_forced(rank);
      bool const by_k = forced || rank < goals.top_k.blocks;
      bool const by_p = forced || rank < goals.top_p.blocks || before < goals.top_p.mass;
      std::uint64_t const units = row.units(before, mass);
      mine.kept += by_k || by_p, mine.top_k += by_k, mine.top_p += by_p;
      mine.kept_mass += by_k || by_p ? units : 0;
      mine.top_k_mass += by_k ? units : 0;
      mine.top_p_mass += by_p ? units : 0;
    });
    add(row, mine, params.tallies[at.head(params.row.rows)]);
  }

private:
  static __device__ __forceinline__ void add(Row const& row, CalibrationTally const& mine,
                                             CalibrationTally& head) {
    CalibrationTally const sum{row.scan(mine.kept).all,       row.scan(mine.top_k).all,
                               row.scan(mine.top_p).all,      row.scan(mine.kept_mass).all,
                               row.scan(mine.top_k_mass).all, row.scan(mine.top_p_mass).all};
    if (threadIdx.x != 0) return;
    add_to(head.kept, sum.kept), add_to(head.top_k, sum.top_k), add_to(head.top_p, sum.top_p);
    add_to(head.kept_mass, sum.kept_mass);
    add_to(head.top_k_mass, sum.top_k_mass), add_to(head.top_p_mass, sum.top_p_mass);
  }
};

/// A thread a head.
class CalibrateReport {
public:
  using Params = CalibrateReportParams;
  static constexpr int threads = 128, ctas_per_sm = 2;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    std::int64_t const head = std::int64_t{blockIdx.x} * threads + threadIdx.x;
    if (head >= params.heads) return;
    CalibrationTally const& tally = params.tallies[head];
    double const rows = static_cast<double>(params.rows_of_head > 0 ? params.rows_of_head : 1);
    auto const mass = [&](std::uint64_t units) {
      return static_cast<double>(units) / params.row_mass / rows;
    };
    Calibration report;
    report.kept_pairs = static_cast<std::int64_t>(tally.kept);
    report.all_pairs = params.rows_of_head * params.kv_blocks;
    report.top_k_pairs = static_cast<std::int64_t>(tally.top_k);
    report.top_p_pairs = static_cast<std::int64_t>(tally.top_p);
    report.kept_mass = mass(tally.kept_mass);
    report.top_k_mass = mass(tally.top_k_mass), report.top_p_mass = mass(tally.top_p_mass);
    report.top_p = params.top_p_of_head[head];
    report.met = params.groups[params.scope == CalibrationScope::all_heads ? 0 : head].met;
    params.report[head] = report;
  }
};

namespace detail {

/// Launches Kernel for rows as long as the layout's.
template <template <int> class Kernel>
cudaError_t launch_sorted_rows(typename Kernel<CalibrateLayout::short_threads>::Params const& params,
                               CalibrateLayout const& layout, cudaStream_t stream) noexcept {
  std::int64_t const rows = params.row.rows.chunk.tiles * RowLayout::tile_rows;
  switch (layout.threads) {
    case CalibrateLayout::short_threads:
      return launch<Kernel<CalibrateLayout::short_threads>>(params, rows, layout.shared_bytes, stream);
    case CalibrateLayout::wide_threads:
      return launch<Kernel<CalibrateLayout::wide_threads>>(params, rows, layout.shared_bytes, stream);
    default:
      return launch<Kernel<CalibrateLayout::long_threads>>(params, rows, layout.shared_bytes, stream);
  }
}

}  // namespace detail

SPARGE_INLINE cudaError_t launch_calibrate_count(CalibrateCountParams const& params,
                                                 CalibrateLayout const& layout,
                                                 cudaStream_t stream) noexcept {
  return detail::launch_sorted_rows<CalibrateCount>(params, layout, stream);
}

SPARGE_INLINE cudaError_t launch_calibrate_step(CalibrateStepParams const& params, std::int64_t groups,
                                                cudaStream_t stream) noexcept {
  return launch<CalibrateStep>(params, groups, 0, stream);
}

SPARGE_INLINE cudaError_t launch_calibrate_report_rows(CalibrateReportRowsParams const& params,
                                                       CalibrateLayout const& layout,
                                                       cudaStream_t stream) noexcept {
  return detail::launch_sorted_rows<CalibrateReportRows>(params, layout, stream);
}

SPARGE_INLINE cudaError_t launch_calibrate_report(CalibrateReportParams const& params,
                                                  cudaStream_t stream) noexcept {
  return launch<CalibrateReport>(params, ceil_div(params.heads, CalibrateReport::threads), 0, stream);
}

SPARGE_INLINE cudaError_t launch_calibrate_clear(CalibrationGroup* groups, CalibrationTally* tallies,
                                                 std::int64_t heads, cudaStream_t stream) noexcept {
  PendingError const pending;
  auto const count = static_cast<std::size_t>(heads);
  cudaError_t error = cudaMemsetAsync(groups, 0, count * sizeof *groups, stream);
  if (error == cudaSuccess) error = cudaMemsetAsync(tallies, 0, count * sizeof *tallies, stream);
  return pending.take_back(error);
}

}  // namespace sparge
