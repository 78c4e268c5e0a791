#pragma once
/// The order of a kernel's tiles, made by warps of its own thread blocks that have nothing else to do, while the others compute tiles
/// that need no order.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/device/global_word.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/order_lines.cuh"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/plan/schedule_rule.hpp"

namespace sparge {

/// Every crew of the grid claims chunks of rows and counts them until none is left; that of the last warp to finish lists the items; then a warp of
/// each crew claims split rows and finds their pieces. Nobody waits for a thread block that may not have started. The header was all 0 before
/// the launch.
template <class Crew>
class ScheduleInside {
  using Order = OrderLines<Crew>;

public:
  using Shared = typename Order::Shared;

  /// By all warps of the crew. `pass` is one of rows.
  static __device__ __forceinline__ void run(ScheduleMask const& mask, SchedulePass const& pass,
                                             Shared& shared) {
    std::uint32_t* const header = pass.schedule.header;
    if (Crew::sync_any(count_rows(mask, pass)))
      list(pass, shared);
    else if (Crew::warp() == 0)
      while (load_acquiring(header + Schedule::is_listed) == 0) __nanosleep(500);
    else
      return;
    cut(mask, pass);
  }

private:
  static constexpr std::uint32_t chunk_rows = 32;  ///< a lane a row

  static __device__ __forceinline__ unsigned long long* kept_of(std::uint32_t* header) {
    static_assert(Schedule::kept % 2 == 0);
    return reinterpret_cast<unsigned long long*>(header + Schedule::kept);
  }

  /// By the whole crew, in which each thread sees the list once this returns.
  static __device__ __forceinline__ void list(SchedulePass const& pass, Shared& shared) {
    __threadfence();  // counts of other multiprocessors, which are in memory, are not read from a cache
    std::uint32_t* const header = pass.schedule.header;
    std::uint64_t const kept = *kept_of(header);
    std::uint32_t splits = 0;
    if (is_even(pass, kept, header[Schedule::longest]))
      publish_even(pass);
    else
      splits = Order::list(pass, kept, shared);
    __threadfence();
    Crew::sync();
    if (!is_first_thread()) return;
    if (splits == 0) store_releasing(header + Schedule::is_known, 1);
    store_releasing(header + Schedule::is_listed, 1);
  }

  /// By each warp, once the list is known.
  static __device__ __forceinline__ void cut(ScheduleMask const& mask, SchedulePass const& pass) {
    std::uint32_t* const header = pass.schedule.header;
    std::uint32_t const splits = header[Schedule::splits_end];
    std::uint32_t done = 0;
#pragma unroll 1
    while (splits != 0) {
      std::uint32_t const split = claim(header + Schedule::splits_claimed);
      if (split >= splits) break;
      Order::cut(mask, pass, split);
      ++done;
    }
    if (done == 0) return;
    __threadfence();
    __syncwarp();
    if (lane_index() != 0 || atomicAdd(header + Schedule::splits_cut, done) + done != splits) return;
    __threadfence();
    store_releasing(header + Schedule::is_known, 1);
  }

  static __device__ __forceinline__ bool is_first_thread() { return Crew::warp() == 0 && lane_index() == 0; }

  /// By each warp. Whether no row was left to count when it had finished.
  static __device__ __forceinline__ bool count_rows(ScheduleMask const& mask, SchedulePass const& pass) {
    std::uint32_t* const header = pass.schedule.header;
    auto const rows = static_cast<std::uint32_t>(pass.shape.tiles),
               chunks = (rows + chunk_rows - 1) / chunk_rows;
    std::uint32_t kept = 0, longest = 0, counted = 0;
#pragma unroll 1
    while (true) {
      std::uint32_t const chunk = claim(header + Schedule::claimed);
      if (chunk >= chunks) break;
      std::uint32_t const row = chunk_rows * chunk + lane_index();
      if (row < rows) {
        std::uint32_t const count = count_row(mask, row);
        pass.schedule.counts[row] = count;
        kept += count;
        longest = max(longest, count);
      }
      ++counted;
    }
    if (counted == 0) return false;
    __threadfence();
    std::uint64_t const all_kept = warp_sum(std::uint64_t{kept});
    longest = __reduce_max_sync(all_lanes, longest);
    std::uint32_t before = 0;
    if (lane_index() == 0) {
      atomicAdd(kept_of(header), all_kept);
      atomicMax(header + Schedule::longest, longest);
      __threadfence();
      before = atomicAdd(header + Schedule::counted, counted);
    }
    return __shfl_sync(all_lanes, before, 0) + counted == chunks;
  }

  /// The next of what the counter counts, by one warp.
  static __device__ __forceinline__ std::uint32_t claim(std::uint32_t* counter) {
    std::uint32_t claimed = 0;
    if (lane_index() == 0) claimed = atomicAdd(counter, 1u);
    return __shfl_sync(all_lanes, claimed, 0);
  }

  static __device__ __forceinline__ std::uint32_t count_row(ScheduleMask const& mask, std::uint32_t row) {
    std::uint32_t const* const words = mask.words + std::int64_t{row} * mask.row_words;
    std::uint32_t kept = 0;
#pragma unroll 8
    for (int word = 0; word < mask.row_words; ++word)
      kept += __popc(words[word] & valid_bits(32 * word, mask.kv_blocks));
    return kept;
  }

  /// Whether nothing is listed, split or sorted, and every tile starts that may start before the order: all follows from the longest row.
  static __device__ __forceinline__ bool is_even(SchedulePass const& pass, std::uint64_t kept,
                                                 std::uint32_t longest) {
    if (longest > ScheduleRule::even_length(kept, pass.shape)) return false;
    std::uint64_t sampled = 0;
    if (lane_index() < ScheduleRule::samples)
      sampled = pass.schedule.counts[ScheduleRule::sample(lane_index(), pass.shape.tiles)];
    return ScheduleRule::starts_first(longest, warp_sum(sampled)) &&
           !ScheduleRule(kept, 0, pass.shape)
                .lists(static_cast<std::uint32_t>(pass.shape.tiles) - 1, longest);
  }

  /// Tiles from the first that no worker starts with, in their order.
  static __device__ __forceinline__ void publish_even(SchedulePass const& pass) {
    if (!is_first_thread()) return;
    auto const tiles = static_cast<std::uint32_t>(pass.shape.tiles);
    std::uint32_t* const header = pass.schedule.header;
    header[Schedule::items_end] = 0;
    header[Schedule::all_end] = tiles - pass.first_tiles;
    header[Schedule::first_tile] = pass.first_tiles;
    header[Schedule::tiles_end] = tiles;
    header[Schedule::splits_end] = 0;
  }
};

}  // namespace sparge
