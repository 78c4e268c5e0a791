#pragma once
/// The order of work: lines that are long go first, those that are too long in pieces; the last ones are sorted.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/device/dependent_launch.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/plan/schedule_rule.hpp"

namespace sparge {

/// One thread block a pass. Each warp looks at a run of neighbouring tiles, first to count what it will list, then, when it knows
/// where its share of each class of length begins, to list it. So the list is the same in every run.
class ScheduleBuild {
public:
  using Params = ScheduleParams;
  static constexpr int warps = 32, threads = 32 * warps, ctas_per_sm = 1;
  static constexpr bool starts_early = true;

  static __device__ __forceinline__ void run(Params const& params, unsigned char*) {
    let_next_kernel_start();
    wait_for_kernel_before();
    __shared__ Shared shared;
    SchedulePass const& pass = params.passes[blockIdx.x];
    ScheduleBuild build(params, pass, shared, make_rule(pass, shared));
    build.count_items();
    build.place();
    if (shared.items == 0) return;
    build.list();
    __syncthreads();
    build.cut();
  }

private:
  static constexpr int classes = ScheduleRule::classes,
                       orders = 2 * classes;  ///< of what goes first, then of what goes last

  struct Shared {
    std::uint64_t kept[warps], excess[warps];
    std::uint32_t place[orders]
                       [warps];  ///< how many items; then, the index of the first one. Longest class first
    std::uint32_t sums[warps], pieces[warps], splits[warps], listed[warps], started[warps];
    std::uint32_t items, all_splits;
  };

  /// A line, in its lane.
  struct Line {
    bool is_started, is_listed, is_last,
        is_split;  ///< at most one of the first three; with the second perhaps the fourth
    std::uint32_t tile, count;
    int pieces, order;  ///< 0 where it is not split; among what place[] counts
  };

  __device__ __forceinline__ ScheduleBuild(Params const& params, SchedulePass const& pass, Shared& shared,
                                           ScheduleRule const& rule)
      : params_(params), pass_(pass), shared_(shared), rule_(rule) {
    int const words = static_cast<int>((pass.shape.tiles + 31) / 32), a_warp = (words + warps - 1) / warps;
    first_word_ = min(warp_index() * a_warp, words);
    end_word_ = min(first_word_ + a_warp, words);
    may_start_ =
        pass.starts_first ? static_cast<std::uint32_t>(min(pass.shape.tiles, pass.shape.workers)) : 0;
    if (may_start_ == 0) return;
    std::uint64_t sampled = 0;
    if (lane_index() < ScheduleRule::samples)
      sampled = pass.schedule.counts[ScheduleRule::sample(lane_index(), pass.shape.tiles)];
    sampled_ = warp_sum(sampled);
  }

  static __device__ __forceinline__ ScheduleRule make_rule(SchedulePass const& pass, Shared& shared) {
    std::uint64_t const kept = sum_of_lines(pass, shared.kept, [](std::uint32_t count) { return count; });
    std::uint32_t const even = ScheduleRule::even_length(kept, pass.shape);
    std::uint64_t const excess = sum_of_lines(
        pass, shared.excess, [&](std::uint32_t count) { return ScheduleRule::excess_of(count, even); });
    return {kept, excess, pass.shape};
  }

  template <class Value>
  static __device__ __forceinline__ std::uint64_t sum_of_lines(SchedulePass const& pass,
                                                               std::uint64_t (&sums)[warps], Value value) {
    std::uint64_t sum = 0;
#pragma unroll 8
    for (std::int64_t tile = threadIdx.x; tile < pass.shape.tiles; tile += threads)
      sum += value(pass.schedule.counts[tile]);
    sum = warp_sum(sum);
    if (lane_index() == 0) sums[warp_index()] = sum;
    __syncthreads();
    return warp_sum(sums[lane_index()]);
  }

  __device__ __forceinline__ Line line_at(int word) const {
    std::int64_t const tile = std::int64_t{32} * word + lane_index();
    bool const exists = tile < pass_.shape.tiles;
    std::uint32_t const count = exists ? pass_.schedule.counts[tile] : 0;
    bool const is_started = tile < may_start_ && ScheduleRule::starts_first(count, sampled_),
               is_left = exists && !is_started,
               is_listed = is_left && rule_.lists(static_cast<std::uint32_t>(tile), count),
               is_last = is_left && !is_listed && tile >= rule_.last_from();
    Line line{is_started,
              is_listed,
              is_last,
              is_left && rule_.splits(count),
              static_cast<std::uint32_t>(tile),
              count,
              0,
              is_last ? orders - 1 - rule_.class_of_last(count) : classes - 1 - rule_.class_of(count)};
    if (line.is_split) line.pieces = rule_.pieces(count);
    return line;
  }

  /// How many items of each class this warp's tiles make, and which tiles are listed.
  __device__ __forceinline__ void count_items() const {
    int const warp = warp_index();
    for (int i = static_cast<int>(threadIdx.x); i < orders * warps; i += threads)
      (&shared_.place[0][0])[i] = 0;
    __syncthreads();
    std::uint32_t pieces = 0, splits = 0, listed = 0, started = 0;
#pragma unroll 4
    for (int word = first_word_; word < end_word_; ++word) {
      Line const line = line_at(word);
      std::uint32_t const bits = __ballot_sync(all_lanes, line.is_listed || line.is_last || line.is_started);
      if (lane_index() == 0) pass_.schedule.listed[word] = bits;
      if (is_whole(line)) atomicAdd(&shared_.place[line.order][warp], 1u);
      pieces += line.pieces;
      splits += line.is_split;
      listed += line.is_listed;
      started += line.is_started;
    }
    pieces = warp_sum(pieces);
    splits = warp_sum(splits);
    listed = warp_sum(listed);
    started = warp_sum(started);
    if (lane_index() != 0) return;
    shared_.pieces[warp] = pieces, shared_.splits[warp] = splits;
    shared_.listed[warp] = listed, shared_.started[warp] = started;
  }

  /// Whether it is one item.
  static __device__ __forceinline__ bool is_whole(Line const& line) {
    return line.is_last || (line.is_listed && !line.is_split);
  }

  /// Inclusive.
  static __device__ __forceinline__ std::uint32_t warp_scan(std::uint32_t value) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      std::uint32_t const lower = __shfl_up_sync(all_lanes, value, step);
      if (lane_index() >= step) value += lower;
    }
    return value;
  }

  /// From counts to the place of the first: pieces, then classes from long to short, twice, within each warp after warp.
  __device__ __forceinline__ void place() const {
    constexpr int share = orders * warps / threads;
    __syncthreads();
    std::uint32_t* const mine = &shared_.place[0][0] + share * threadIdx.x;
    std::uint32_t total = 0;
#pragma unroll
    for (int i = 0; i < share; ++i) total += mine[i];
    std::uint32_t const here = warp_scan(total);
    if (lane_index() == 31) shared_.sums[warp_index()] = here;
    __syncthreads();
    std::uint32_t const pieces = warp_scan(shared_.pieces[lane_index()]),
                        splits = warp_scan(shared_.splits[lane_index()]),
                        sums = warp_scan(shared_.sums[lane_index()]);
    std::uint32_t const all_pieces = __shfl_sync(all_lanes, pieces, 31);
    std::uint32_t const before = warp_index() == 0 ? 0 : __shfl_sync(all_lanes, sums, warp_index() - 1);
    std::uint32_t next = all_pieces + before + here - total;
#pragma unroll
    for (int i = 0; i < share; ++i) {
      std::uint32_t const count = mine[i];
      mine[i] = next;
      next += count;
    }
    __syncthreads();  // all have read the counts of pieces
    if (warp_index() == 0) {
      std::uint32_t const listed = warp_sum(shared_.listed[lane_index()]),
                          started = warp_sum(shared_.started[lane_index()]);
      shared_.pieces[lane_index()] = pieces - shared_.pieces[lane_index()];
      shared_.splits[lane_index()] = splits - shared_.splits[lane_index()];
      if (lane_index() == 31)
        publish(all_pieces + listed - splits, all_pieces + sums, splits, started, listed + started);
    }
    __syncthreads();
  }

  /// Items that go first, and all. `started` or listed to go first are `gaps`.
  __device__ __forceinline__ void publish(std::uint32_t items, std::uint32_t all_items, std::uint32_t splits,
                                          std::uint32_t started, std::uint32_t gaps) const {
    // Where every worker has its first tile the others follow without a look at bits.
    std::uint32_t const first_tile = started == may_start_ ? started : 0;
    std::uint32_t const tiles_end = max(first_tile, rule_.last_from());
    shared_.items = all_items;
    shared_.all_splits = splits;
    std::uint32_t* const header = pass_.schedule.header;
    header[Schedule::next] = 0;
    header[Schedule::items_end] = items;
    header[Schedule::all_end] = all_items + tiles_end - first_tile;
    header[Schedule::first_tile] = first_tile | (gaps > first_tile ? Schedule::has_gaps : 0);
    header[Schedule::tiles_end] = tiles_end;
    header[Schedule::splits_end] = splits;
  }

  __device__ __forceinline__ void list() const {
    std::uint32_t slot = shared_.pieces[warp_index()], split = shared_.splits[warp_index()];
#pragma unroll 2
    for (int word = first_word_; word < end_word_; ++word) {
      Line const line = line_at(word);
      list_whole(line);
      if (__any_sync(all_lanes, line.is_split)) list_split(line, slot, split);
    }
  }

  /// The first lane of each class takes places for all of its lanes.
  __device__ __forceinline__ void list_whole(Line const& line) const {
    bool const is_item = is_whole(line);
    unsigned const peers = __match_any_sync(all_lanes, is_item ? line.order : -1);
    int const first = __ffs(static_cast<int>(peers)) - 1;
    std::uint32_t place = 0;
    if (is_item && lane_index() == first)
      place = atomicAdd(&shared_.place[line.order][warp_index()], static_cast<std::uint32_t>(__popc(peers)));
    place = __shfl_sync(all_lanes, place, first) + count_lower_lanes(peers);
    if (is_item)
      pass_.schedule.items[place] = {line.tile, 0, static_cast<std::int32_t>(pass_.shape.blocks), -1};
  }

  /// Slots in the order of tiles. Moves on the next slot and the index of the next split line.
  __device__ __forceinline__ void list_split(Line const& line, std::uint32_t& slot,
                                             std::uint32_t& split) const {
    unsigned const splits = __ballot_sync(all_lanes, line.is_split);
    std::uint32_t const pieces = static_cast<std::uint32_t>(line.pieces), upto = warp_scan(pieces);
    if (line.is_split)
      pass_.schedule.splits[split + count_lower_lanes(splits)] = {
          line.tile, static_cast<std::int32_t>(slot + upto - pieces), line.pieces};
    slot += __shfl_sync(all_lanes, upto, 31);
    split += __popc(splits);
  }

  // ---- Pieces ------------------------------------------------------------------------------------------------------------

  /// A warp a line.
  __device__ __forceinline__ void cut() const {
    for (std::uint32_t split = warp_index(); split < shared_.all_splits; split += warps) {
      SplitLine const line = pass_.schedule.splits[split];
      if (pass_.lines == ScheduleLines::rows)
        cut_line(line, row_words_of(params_.mask, line.tile, params_.row_words));
      else
        cut_line(line, column_words_of(params_.mask, line.tile / params_.kv_blocks,
                                       static_cast<int>(line.tile % params_.kv_blocks), pass_.shape.blocks,
                                       params_.row_words));
    }
  }

  /// A piece ends where the next one's first kept block is.
  template <class Words>
  __device__ __forceinline__ void cut_line(SplitLine const& line, Words words) const {
    int const blocks = static_cast<int>(pass_.shape.blocks);
    WorkItem* const items = pass_.schedule.items + line.slot;
    for (int piece = lane_index(); piece < line.pieces; piece += 32) {
      items[piece].tile = line.tile;
      items[piece].slot = line.slot + piece;
      if (piece == 0) items[0].first = 0;
      if (piece == line.pieces - 1) items[piece].end = blocks;
    }
    std::uint32_t const count = pass_.schedule.counts[line.tile];
    std::uint32_t before = 0;  // kept blocks in chunks before
    for (int first = 0; first < blocks; first += 32 * 32) {
      int const valid = blocks - first - 32 * lane_index();
      std::uint32_t word = words.load(first, blocks);
      if (valid < 32) word &= valid > 0 ? (1u << valid) - 1 : 0;
      std::uint32_t const kept = static_cast<std::uint32_t>(__popc(word)), upto = before + warp_scan(kept);
      for (int piece = 1; piece < line.pieces; ++piece) {
        std::uint32_t const wanted = ScheduleRule::kept_before(piece, count, line.pieces);
        if (wanted < upto - kept || wanted >= upto) continue;
        int const border = first + 32 * lane_index() + nth_bit(word, wanted - (upto - kept));
        items[piece].first = border;
        items[piece - 1].end = border;
      }
      before = __shfl_sync(all_lanes, upto, 31);
    }
  }

  /// The place of the set bit that has `n` set ones below.
  static __device__ __forceinline__ int nth_bit(std::uint32_t word, std::uint32_t n) {
    for (; n > 0; --n) word &= word - 1;
    return __ffs(static_cast<int>(word)) - 1;
  }

  Params const& params_;
  SchedulePass const& pass_;
  Shared& shared_;
  ScheduleRule rule_;
  int first_word_, end_word_;
  std::uint32_t may_start_;    ///< tiles that workers may start with
  std::uint64_t sampled_ = 0;  ///< kept blocks of the lines that stand for all
};

}  // namespace sparge
