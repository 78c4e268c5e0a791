#pragma once
/// Which lines of a mask go first and which are split, as plain functions that host tests call too.

#include <driver_types.h>

#include <cstdint>

#include "sparge/plan/schedule.hpp"

namespace sparge {

/// The load of a worker is kept blocks / workers, the mean that of a tile.
///
/// A line is split where it exceeds a third of the load and twice the mean, in equal pieces of at most a fourth of the load, or the
/// mean where that is more. Where there are few tiles and they are uneven, all are listed, so that long ones go first; where they are even,
/// those of more than 1.5 times the mean. Where there are many, those that exceed a 32nd of the load; if they are uneven, only where
/// that is more than three times the mean, and the last tiles are sorted: what is left for the end is short.
class ScheduleRule {
public:
  /// `kept` blocks in all lines together, and `excess` of them past even_length() of their lines.
  __host__ __device__ ScheduleRule(std::uint64_t kept, std::uint64_t excess, ScheduleShape const& shape) {
    constexpr auto least_piece = static_cast<std::uint64_t>(ScheduleBounds::least_piece_blocks);
    auto const tiles = static_cast<std::uint64_t>(shape.tiles),
               workers = static_cast<std::uint64_t>(shape.workers),
               listed = ScheduleBounds::listed_a_worker * workers;
    bool const are_few = tiles <= listed, are_uneven = 256 * excess > kept;
    lists_all_ = are_few && are_uneven;
    last_from_ = static_cast<std::uint32_t>(
        are_few || !are_uneven ? tiles
                               : tiles - static_cast<std::uint64_t>(ScheduleBounds::last_a_worker) * workers);
    list_over_ = are_few ? 3 * kept / (2 * tiles) : kept / listed;
    if (!are_few && are_uneven) list_over_ = larger(list_over_, 3 * kept / tiles);
    class_scale_ = kept == 0 ? 0 : (mean_class_units * tiles << class_shift) / kept;
    split_over_ = larger(larger(kept / (3 * workers), 2 * kept / tiles), 2 * least_piece);
    piece_blocks_ = larger(larger(divide_up(kept, 4 * workers), divide_up(kept, tiles)), least_piece);
  }

  __host__ __device__ bool lists_all() const { return lists_all_; }

  /// Whether a line of `count` kept blocks is an item, and not a tile that follows the items in head-major order.
  __host__ __device__ bool lists(std::uint32_t count) const { return lists_all_ || count > list_over_; }

  /// From this tile on, those that lists() does not name go last, sorted. The number of tiles where there are no such.
  __host__ __device__ std::uint32_t last_from() const { return last_from_; }

  /// Lines up to this length count as even.
  static __host__ __device__ std::uint32_t even_length(std::uint64_t kept, ScheduleShape const& shape) {
    return static_cast<std::uint32_t>(5 * kept / (4 * static_cast<std::uint64_t>(shape.tiles)));
  }

  /// Kept blocks of a line past that.
  static __host__ __device__ std::uint32_t excess_of(std::uint32_t count, std::uint32_t even_length) {
    return count > even_length ? count - even_length : 0;
  }

  /// Lines that stand for all where no one has counted yet.
  static constexpr std::int32_t samples = 8;
  static __host__ __device__ std::int64_t sample(std::int32_t index, std::int64_t tiles) {
    return tiles / (2 * samples) + index * (tiles / samples);
  }

  /// Whether one of a worker's first lines may start before the order is known: it is never split, or up to 1.5 times as long as those that
  /// stand for all, whose kept blocks together are given. What is longer may have to be split.
  static __host__ __device__ bool starts_first(std::uint32_t count, std::uint64_t sampled) {
    return is_never_split(count) || count <= 3 * sampled / (2 * samples);
  }

  /// Whatever the other lines are.
  static __host__ __device__ bool is_never_split(std::uint32_t count) {
    return count <= static_cast<std::uint32_t>(2 * ScheduleBounds::least_piece_blocks);
  }

  /// Whether it is split, and into how many pieces.
  __host__ __device__ bool splits(std::uint32_t count) const { return count > split_over_; }
  __host__ __device__ std::int32_t pieces(std::uint32_t count) const {
    return static_cast<std::int32_t>(divide_up(count, piece_blocks_));
  }

  /// Kept blocks of the line that come before a piece.
  static __host__ __device__ std::uint32_t kept_before(std::int32_t piece, std::uint32_t count,
                                                       std::int32_t pieces) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(piece) * count /
                                      static_cast<std::uint64_t>(pieces));
  }

  /// Items are ordered by classes of length, each a third to a half longer than the one before. One of them is 0.8 to 1.2 times the
  /// mean, so that nearly equal lines stay head-major.
  static constexpr std::int32_t classes = 64;
  __host__ __device__ std::int32_t class_of(std::uint32_t count) const {
    std::uint64_t const scaled = count * class_scale_ >> class_shift;
    std::uint32_t const units = scaled < 0xffffffffu ? static_cast<std::uint32_t>(scaled) : 0xffffffffu;
    if (units < 2) return static_cast<std::int32_t>(units);
#ifdef __CUDA_ARCH__
    int const exponent = 31 - __clz(static_cast<int>(units));
#else
    int exponent = 1;
    while (exponent < 31 && units >> (exponent + 1) != 0) ++exponent;
#endif
    return 2 * exponent + static_cast<std::int32_t>(units >> (exponent - 1) & 1);
  }

private:
  static __host__ __device__ std::uint64_t larger(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }
  static __host__ __device__ std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return (a + b - 1) / b;
  }

  /// The mean in the middle of 16 to 24, between two borders of classes. Products fit: no count exceeds `kept`, tiles are below 2^32.
  static constexpr std::uint64_t mean_class_units = 20;
  static constexpr int class_shift = 16;

  bool lists_all_;
  std::uint32_t last_from_;
  std::uint64_t list_over_, split_over_, piece_blocks_, class_scale_;
};

}  // namespace sparge
