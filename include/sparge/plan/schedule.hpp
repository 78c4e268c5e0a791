#pragma once
/// How rows of uneven length are cut and ordered for persistent thread blocks: what the list holds, its bounds, its scratch. A line is what
/// one tile visits: the blocks of a mask row, or of a mask column over all heads of a group. docs/decisions/uneven_rows.md has
/// the reasons for the rule.

#include <cstdint>

#include "sparge/core/carver.hpp"
#include "sparge/core/checked.hpp"

namespace sparge {

/// A piece of a line, or all of it.
struct alignas(16) WorkItem {
  std::uint32_t tile;       ///< index of the tile, head-major
  std::int32_t first, end;  ///< the blocks of the line that are visited where they are kept
  std::int32_t slot;        ///< where the partial result goes, and the index of this item; -1: the whole line
};

/// A line that was split: its pieces are the items `slot` .. `slot + pieces - 1`.
struct SplitLine {
  std::uint32_t tile;
  std::int32_t slot, pieces;
};

/// What the rule and its bounds depend on besides the mask. All are at least 0, and `workers` at least 1.
struct ScheduleShape {
  std::int64_t tiles = 0;
  std::int64_t blocks = 0;   ///< of a line, kept or not
  std::int64_t workers = 1;  ///< tiles that a GPU full of thread blocks computes at a time
};

/// The constants of the rule (plan/schedule_rule.hpp), and the bounds that follow from it.
struct ScheduleBounds {
  static constexpr std::int64_t least_piece_blocks = 16;   ///< a piece is not made for less
  static constexpr std::int64_t all_sorted_a_worker = 16;  ///< where there are no more, all are sorted
  static constexpr std::int64_t last_a_worker = 12;  ///< else of so many at the end the longest start first

  /// Each is more than a third of a worker's load, and more than twice the mean.
  static constexpr std::int64_t splits(ScheduleShape const& shape) {
    if (shape.tiles == 0 || shape.blocks <= 2 * least_piece_blocks) return 0;
    return smaller(3 * shape.workers, (shape.tiles - 1) / 2);
  }

  /// A piece is at least a fourth of a worker's load, but for one a line.
  static constexpr std::int64_t pieces(ScheduleShape const& shape) {
    std::int64_t const most_splits = splits(shape);
    return smaller(4 * shape.workers + most_splits, most_splits * ceil_div(shape.blocks, least_piece_blocks));
  }

  /// Of whole lines that go first the k-th from the end exceeds 2/5 of what a worker has of k tiles, and all together are at most the mean
  /// by the tiles: their number is at most the root of 5 tiles by workers.
  static constexpr std::int64_t items(ScheduleShape const& shape) {
    std::int64_t const listed = root(5 * shape.tiles * shape.workers),
                       sorted = larger(all_sorted_a_worker, last_a_worker) * shape.workers;
    return smaller(shape.tiles, listed + sorted) + pieces(shape);
  }

  /// Tiles that workers may start with before the order is known, worker `i` with tiles i, i + workers, ..: one each, and where there are many,
  /// which take longer to order, one in `share` of all.
  static constexpr std::int64_t first_tiles(ScheduleShape const& shape, std::int64_t share = 8) {
    return smaller(shape.tiles, ceil_div(shape.tiles, share * shape.workers) * shape.workers);
  }

private:
  static constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
  static constexpr std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

  /// Rounded down.
  static constexpr std::int64_t root(std::int64_t square) {
    std::int64_t root = 0;
    for (std::int64_t bit = std::int64_t{1} << 30; bit > 0; bit /= 2)
      if ((root + bit) * (root + bit) <= square) root += bit;
    return root;
  }
};

/// What the device is told of the order of work, in the workspace.
struct Schedule {
  /// Words of `header`: what a queue reads of it is one aligned load.
  enum Field : std::int32_t {
    items_end,   ///< items that go first
    all_end,     ///< these, tiles after them, and items that go last
    first_tile,  ///< after the items tiles follow from this one on; and has_gaps
    tiles_end,   ///< to before this one; then the items that go last
    splits_end,  ///< split lines
    next,        ///< asked for so far
    // Of an order that is made while it is waited for; 0 at the start.
    kept,                ///< blocks in all lines counted so far, 64 bits
    longest = kept + 2,  ///< kept blocks of the longest of them
    claimed,             ///< chunks of lines that someone counts or has counted
    counted,             ///< chunks
    is_listed,           ///< not 0: all is in memory but where the pieces of split lines begin
    splits_claimed,      ///< split lines that someone cuts or has cut
    splits_cut,          ///< split lines
    is_known,            ///< not 0: all is in memory
    fields
  };

  /// With `first_tile`, which is at most ScheduleBounds::first_tiles(): `listed` tells which tiles to pass over.
  static constexpr std::uint32_t has_gaps = 1u << 31;

  std::uint32_t* header = nullptr;
  std::uint32_t* counts = nullptr;  ///< [tiles]: kept blocks of each line
  WorkItem* items = nullptr;        ///< pieces, then whole lines, then those that go last
  std::uint32_t* listed = nullptr;  ///< a bit a tile: it is among the items, or started before them
  SplitLine* splits = nullptr;
  float* partials = nullptr;  ///< a slot a piece

  /// `slot_floats` f32 values a piece.
  static Schedule lay_out(Carver& carver, ScheduleShape const& shape, std::int64_t slot_floats) {
    Schedule schedule;
    if (shape.tiles == 0) return schedule;
    schedule.header = carver.take<std::uint32_t>(fields);
    schedule.counts = carver.take<std::uint32_t>(shape.tiles);
    schedule.items = carver.take<WorkItem>(ScheduleBounds::items(shape));
    schedule.listed = carver.take<std::uint32_t>(ceil_div(shape.tiles, 32));
    schedule.splits = carver.take<SplitLine>(ScheduleBounds::splits(shape));
    schedule.partials = carver.take<float>(ScheduleBounds::pieces(shape) * slot_floats);
    return schedule;
  }
};

}  // namespace sparge
