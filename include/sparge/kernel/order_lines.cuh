#pragma once
/// The order of work: lines that are long go first, those that are too long in pieces; the last ones are sorted.

#include <cstdint>

#include "sparge/collective/line_words.cuh"
#include "sparge/device/warp.cuh"
#include "sparge/kernel/schedule_params.hpp"
#include "sparge/plan/schedule_rule.hpp"

namespace sparge {

/// The warps that make an order: all of a thread block's.
template <int count>
struct WholeBlock {
  static constexpr int warps = count, threads = 32 * warps;
  static __device__ __forceinline__ int warp() { return warp_index(); }
  static __device__ __forceinline__ void sync() { __syncthreads(); }
};

/// Or some, while the others do something else. `barrier` is one of 16 that a thread block has, and theirs alone.
template <int first, int count, int barrier>
struct SomeWarps {
  static constexpr int warps = count, threads = 32 * warps;
  static __device__ __forceinline__ int warp() { return warp_index() - first; }
  static __device__ __forceinline__ void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(barrier), "n"(threads) : "memory");
  }
  /// Waits for all of them, and returns whether the condition holds in one.
  static __device__ __forceinline__ bool sync_any(bool condition) {
    int any;
    asm volatile(
        "{.reg .pred p, q; setp.ne.b32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.b32 %0, 1, 0, q;}"
        : "=r"(any)
        : "r"(static_cast<int>(condition)), "n"(barrier), "n"(threads)
        : "memory");
    return any != 0;
  }
};

/// Where the mask bits are.
struct ScheduleMask {
  std::uint32_t const* words = nullptr;  ///< [batch, heads, q_blocks, row_words]
  std::int32_t kv_blocks = 0, row_words = 0;
};

/// By a crew of warps for one pass, whose lines are counted. Each warp looks at a run of neighbouring tiles, first to count what it will list, then, when it knows
/// where its share of each class of length begins, to list it. So the list is the same in every run.
template <class Crew>
class OrderLines {
  static constexpr int classes = ScheduleRule::classes,
                       orders = 2 * classes;  ///< of what goes first, then of what goes last
  static constexpr int warps = Crew::warps, threads = Crew::threads;
  static_assert(warps <= 32);  // a lane a warp

public:
  struct Shared {
    std::uint64_t kept[warps], excess[warps];
    std::uint32_t place[orders]
                       [warps];  ///< how many items; then, the index of the first one. Longest class first
    std::uint32_t sums[warps], pieces[warps], splits[warps], listed[warps], started[warps];
    std::uint32_t items, all_splits;
  };

  /// `kept` blocks in all lines. Returns how many lines are split, which are then to be cut. By the whole crew, that sees what it wrote once it
  /// has met once more.
  static __device__ __forceinline__ std::uint32_t list(SchedulePass const& pass, std::uint64_t kept,
                                                       Shared& shared) {
    OrderLines const order(pass, shared, make_rule(pass, kept, shared));
    order.count_items();
    order.place();
    if (shared.items != 0) order.list_items();
    return shared.all_splits;
  }

  /// Finds where the pieces of a split line begin. By a warp.
  static __device__ __forceinline__ void cut(ScheduleMask const& mask, SchedulePass const& pass,
                                             std::uint32_t split) {
    SplitLine const line = pass.schedule.splits[split];
    if (pass.lines == ScheduleLines::rows)
      cut_line(pass, line, row_words_of(mask.words, line.tile, mask.row_words));
    else
      cut_line(
          pass, line,
          column_words_of(mask.words, line.tile / mask.kv_blocks,
                          static_cast<int>(line.tile % mask.kv_blocks), pass.shape.blocks, mask.row_words));
  }

  static __device__ __forceinline__ std::uint64_t count_kept(SchedulePass const& pass, Shared& shared) {
    return sum_of_lines(pass, shared.kept, [](std::uint32_t count) { return count; });
  }

private:
  /// A line, in its lane.
  struct Line {
    bool is_started, is_listed, is_last,
        is_split;  ///< at most one of the first three; with the second perhaps the fourth
    std::uint32_t tile, count;
  };

  __device__ __forceinline__ OrderLines(SchedulePass const& pass, Shared& shared, ScheduleRule const& rule)
      : pass_(pass), shared_(shared), rule_(rule) {
    int const words = static_cast<int>((pass.shape.tiles + 31) / 32), a_warp = (words + warps - 1) / warps;
    first_word_ = min(Crew::warp() * a_warp, words);
    end_word_ = min(first_word_ + a_warp, words);
    if (pass.first_tiles == 0) return;
    std::uint64_t sampled = 0;
    if (lane_index() < ScheduleRule::samples)
      sampled = pass.schedule.counts[ScheduleRule::sample(lane_index(), pass.shape.tiles)];
    sampled_ = warp_sum(sampled);
  }

  static __device__ __forceinline__ ScheduleRule make_rule(SchedulePass const& pass, std::uint64_t kept,
                                                           Shared& shared) {
    std::uint32_t const even = ScheduleRule::even_length(kept, pass.shape);
    std::uint64_t const excess = sum_of_lines(
        pass, shared.excess, [&](std::uint32_t count) { return ScheduleRule::excess_of(count, even); });
    return {kept, excess, pass.shape};
  }

  static __device__ __forceinline__ int thread() { return 32 * Crew::warp() + lane_index(); }

  /// In lane `l` what warp `l` left.
  template <class Value>
  static __device__ __forceinline__ Value of_warp(Value const (&values)[warps]) {
    return lane_index() < warps ? values[lane_index()] : Value{0};
  }

  template <class Value>
  static __device__ __forceinline__ std::uint64_t sum_of_lines(SchedulePass const& pass,
                                                               std::uint64_t (&sums)[warps], Value value) {
    std::uint64_t sum = 0;
#pragma unroll 8
    for (std::int64_t tile = thread(); tile < pass.shape.tiles; tile += threads)
      sum += value(pass.schedule.counts[tile]);
    sum = warp_sum(sum);
    if (lane_index() == 0) sums[Crew::warp()] = sum;
    Crew::sync();
    return warp_sum(of_warp(sums));
  }

  /// Calls visit(word, line) for this warp's share of the tiles, 32 at a time. Asks for several counts at once, since what visits write keeps
  /// the compiler from that.
  template <class Visit>
  __device__ __forceinline__ void for_each_line(Visit visit) const {
    constexpr int batch = 4;
#pragma unroll 1
    for (int first = first_word_; first < end_word_; first += batch) {
      std::uint32_t counts[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) counts[i] = first + i < end_word_ ? count_at(first + i) : 0;
#pragma unroll
      for (int i = 0; i < batch; ++i)
        if (first + i < end_word_) visit(first + i, line_of(tile_at(first + i), counts[i]));
    }
  }

  /// The same where a bit of the word says that a tile is an item or started. Asks for the counts of the next such word ahead.
  template <class Visit>
  __device__ __forceinline__ void for_each_listed(Visit visit) const {
#pragma unroll 1
    for (int first = first_word_; first < end_word_; first += 32) {
      int const mine = first + lane_index();
      unsigned words = __ballot_sync(all_lanes, mine < end_word_ && pass_.schedule.listed[mine] != 0);
      int word = first + __ffs(static_cast<int>(words)) - 1;
      std::uint32_t count = words != 0 ? count_at(word) : 0;
#pragma unroll 1
      while (words != 0) {
        words &= words - 1;
        int const next = first + __ffs(static_cast<int>(words)) - 1;
        std::uint32_t const next_count = words != 0 ? count_at(next) : 0;
        visit(line_of(tile_at(word), count));
        word = next;
        count = next_count;
      }
    }
  }

  __device__ __forceinline__ std::uint32_t count_at(int word) const {
    std::int64_t const tile = tile_at(word);
    return tile < pass_.shape.tiles ? pass_.schedule.counts[tile] : 0;
  }

  static __device__ __forceinline__ std::int64_t tile_at(int word) {
    return std::int64_t{32} * word + lane_index();
  }

  __device__ __forceinline__ Line line_of(std::int64_t tile, std::uint32_t count) const {
    bool const exists = tile < pass_.shape.tiles;
    bool const is_started = tile < pass_.first_tiles && ScheduleRule::starts_first(count, sampled_),
               is_left = exists && !is_started,
               is_listed = is_left && rule_.lists(static_cast<std::uint32_t>(tile), count),
               is_last = is_left && !is_listed && tile >= rule_.last_from();
    return {is_started, is_listed, is_last, is_left && rule_.splits(count), static_cast<std::uint32_t>(tile),
            count};
  }

  /// Among what place[] counts, of an item.
  __device__ __forceinline__ int order_of(Line const& line) const {
    return line.is_last ? orders - 1 - rule_.class_of_last(line.count)
                        : classes - 1 - rule_.class_of(line.count);
  }

  /// How many items of each class this warp's tiles make, and which tiles are listed.
  __device__ __forceinline__ void count_items() const {
    int const warp = Crew::warp();
    for (int i = thread(); i < orders * warps; i += threads) (&shared_.place[0][0])[i] = 0;
    Crew::sync();
    std::uint32_t pieces = 0, splits = 0, listed = 0, started = 0;
    for_each_line([&](int word, Line const& line) {
      std::uint32_t const bits = __ballot_sync(all_lanes, line.is_listed || line.is_last || line.is_started);
      if (lane_index() == 0) pass_.schedule.listed[word] = bits;
      if (bits == 0) return;  // most words of a big grid
      if (is_whole(line)) atomicAdd(&shared_.place[order_of(line)][warp], 1u);
      if (line.is_split) pieces += rule_.pieces(line.count);
      splits += line.is_split;
      listed += line.is_listed;
      started += line.is_started;
    });
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
    Crew::sync();
    std::uint32_t* const mine = &shared_.place[0][0] + share * thread();
    std::uint32_t total = 0;
#pragma unroll
    for (int i = 0; i < share; ++i) total += mine[i];
    std::uint32_t const here = warp_scan(total);
    if (lane_index() == 31) shared_.sums[Crew::warp()] = here;
    Crew::sync();
    std::uint32_t const pieces = warp_scan(of_warp(shared_.pieces)),
                        splits = warp_scan(of_warp(shared_.splits)), sums = warp_scan(of_warp(shared_.sums));
    std::uint32_t const all_pieces = __shfl_sync(all_lanes, pieces, 31);
    std::uint32_t const before = Crew::warp() == 0 ? 0 : __shfl_sync(all_lanes, sums, Crew::warp() - 1);
    std::uint32_t next = all_pieces + before + here - total;
#pragma unroll
    for (int i = 0; i < share; ++i) {
      std::uint32_t const count = mine[i];
      mine[i] = next;
      next += count;
    }
    Crew::sync();  // all have read the counts of pieces
    if (Crew::warp() == 0) {
      std::uint32_t const listed = warp_sum(of_warp(shared_.listed)),
                          started = warp_sum(of_warp(shared_.started));
      if (lane_index() < warps) {
        shared_.pieces[lane_index()] = pieces - shared_.pieces[lane_index()];
        shared_.splits[lane_index()] = splits - shared_.splits[lane_index()];
      }
      if (lane_index() == 31)
        publish(all_pieces + listed - splits, all_pieces + sums, splits, started, listed + started);
    }
    Crew::sync();
  }

  /// Items that go first, and all. `started` or listed to go first are `gaps`.
  __device__ __forceinline__ void publish(std::uint32_t items, std::uint32_t all_items, std::uint32_t splits,
                                          std::uint32_t started, std::uint32_t gaps) const {
    // Where every worker has its first tile the others follow without a look at bits.
    std::uint32_t const first_tile = started == pass_.first_tiles ? started : 0;
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

  __device__ __forceinline__ void list_items() const {
    std::uint32_t slot = shared_.pieces[Crew::warp()], split = shared_.splits[Crew::warp()];
    for_each_listed([&](Line const& line) {
      list_whole(line);
      if (__any_sync(all_lanes, line.is_split)) list_split(line, slot, split);
    });
  }

  /// The first lane of each class takes places for all of its lanes.
  __device__ __forceinline__ void list_whole(Line const& line) const {
    bool const is_item = is_whole(line);
    int const order = is_item ? order_of(line) : -1;
    unsigned const peers = __match_any_sync(all_lanes, order);
    int const first = __ffs(static_cast<int>(peers)) - 1;
    std::uint32_t place = 0;
    if (is_item && lane_index() == first)
      place = atomicAdd(&shared_.place[order][Crew::warp()], static_cast<std::uint32_t>(__popc(peers)));
    place = __shfl_sync(all_lanes, place, first) + count_lower_lanes(peers);
    if (is_item)
      pass_.schedule.items[place] = {line.tile, 0, static_cast<std::int32_t>(pass_.shape.blocks), -1};
  }

  /// Slots in the order of tiles. Moves on the next slot and the index of the next split line.
  __device__ __forceinline__ void list_split(Line const& line, std::uint32_t& slot,
                                             std::uint32_t& split) const {
    unsigned const splits = __ballot_sync(all_lanes, line.is_split);
    std::int32_t const count = line.is_split ? rule_.pieces(line.count) : 0;
    std::uint32_t const pieces = static_cast<std::uint32_t>(count), upto = warp_scan(pieces);
    if (line.is_split)
      pass_.schedule.splits[split + count_lower_lanes(splits)] = {
          line.tile, static_cast<std::int32_t>(slot + upto - pieces), count};
    slot += __shfl_sync(all_lanes, upto, 31);
    split += __popc(splits);
  }

  // ---- Pieces ------------------------------------------------------------------------------------------------------------

  /// A piece ends where the next one's first kept block is.
  template <class Words>
  static __device__ __forceinline__ void cut_line(SchedulePass const& pass, SplitLine const& line,
                                                  Words words) {
    int const blocks = static_cast<int>(pass.shape.blocks);
    WorkItem* const items = pass.schedule.items + line.slot;
    for (int piece = lane_index(); piece < line.pieces; piece += 32) {
      items[piece].tile = line.tile;
      items[piece].slot = line.slot + piece;
      if (piece == 0) items[0].first = 0;
      if (piece == line.pieces - 1) items[piece].end = blocks;
    }
    std::uint32_t const count = pass.schedule.counts[line.tile];
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
    int place = 0;
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      std::uint32_t const below = __popc(word >> place & ((1u << half) - 1));
      if (below <= n) n -= below, place += half;
    }
    return place;
  }

  SchedulePass const& pass_;
  Shared& shared_;
  ScheduleRule rule_;
  int first_word_, end_word_;
  std::uint64_t sampled_ = 0;  ///< kept blocks of the lines that stand for all
};

}  // namespace sparge
