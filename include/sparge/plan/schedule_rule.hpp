#pragma once
/// Which lines of a mask go first and which are split, as plain functions that host tests call too.

#include <driver_types.h>

#include <cstdint>

#include "sparge/plan/schedule.hpp"

namespace sparge {

/// The load of a worker is kept blocks / workers, the mean that of a tile.
///
/// A line is split where it exceeds a third of the load and twice the mean, in equal pieces of at most a fourth of the load, or the
/// mean where that is more. Lines that would keep their workers longer than others have work are listed, to go first. Where lines are uneven the
/// last tiles are sorted: what is left for the end is short. All others follow head after head, so that K and V of a head are read once.
class ScheduleRule {
public:
  /// `kept` blocks in all lines together, and `excess` of them past even_length() of their lines.
  __host__ __device__ ScheduleRule(std::uint64_t kept, std::uint64_t excess, ScheduleShape const& shape) {
    constexpr auto least_piece = static_cast<std::uint64_t>(ScheduleBounds::least_piece_blocks);
    auto const tiles = static_cast<std::uint64_t>(shape.tiles),
               workers = static_cast<std::uint64_t>(shape.workers);
    bool const are_uneven = 256 * excess > kept;
    auto const share = [&](std::int64_t a_worker) { return static_cast<std::uint64_t>(a_worker) * workers; };
    std::uint64_t const sorted =
        tiles <= share(ScheduleBounds::all_sorted_a_worker) ? tiles : share(ScheduleBounds::last_a_worker);
    tiles_ = static_cast<std::uint32_t>(tiles);
    workers_ = static_cast<std::uint32_t>(workers);
    last_from_ = static_cast<std::uint32_t>(are_uneven ? tiles - sorted : tiles);
    longest_class_of_last_ = sorted == tiles ? classes - 1 : class_above_mean;
    list_over_ = are_uneven ? 2 * kept / tiles : 3 * kept / (2 * tiles);
    class_scale_ = kept == 0 ? 0 : (mean_class_units * tiles << class_shift) / kept;
    split_over_ = larger(larger(kept / (3 * workers), 2 * kept / tiles), 2 * least_piece);
    piece_blocks_ = larger(larger(divide_up(kept, 4 * workers), divide_up(kept, tiles)), least_piece);
  }

  /// Whether a line of `count` kept blocks is an item that goes first, and not a tile that follows in its turn.
  __host__ __device__ bool lists(std::uint32_t tile, std::uint32_t count) const {
    return splits(count) || (count > list_over_ && outlasts(tile, count));
  }

  /// From this tile on, those that lists() does not name go last, sorted. The number of tiles where there are none.
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
    std::uint64_t const scaled = class_units(count);
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

  /// The place of a line in the order of the last tiles. Where these are many, what exceeds the mean is one class: each is a sweep over their
  /// heads, and the end of a launch is made of the short.
  __host__ __device__ std::int32_t class_of_last(std::uint32_t count) const {
    std::int32_t const own = class_of(count);
    return own < longest_class_of_last_ ? own : longest_class_of_last_;
  }

private:
  /// Whether a line is longer than 2/5 of what a worker has from the line's turn on: it might still be computed when others have nothing
  /// left, the more so as its worker has the next line to itself.
  __host__ __device__ bool outlasts(std::uint32_t tile, std::uint32_t count) const {
    return 5 * class_units(count) * workers_ > 2 * mean_class_units * (tiles_ - tile);
  }

  /// Its length, where mean_class_units are the mean.
  __host__ __device__ std::uint64_t class_units(std::uint32_t count) const {
    return count * class_scale_ >> class_shift;
  }

  static __host__ __device__ std::uint64_t larger(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }
  static __host__ __device__ std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }
  static __host__ __device__ std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return (a + b - 1) / b;
  }

  /// The mean in the middle of 16 to 24, between two borders of classes. Products fit: no count exceeds `kept`, tiles are below 2^32.
  static constexpr std::uint64_t mean_class_units = 20;
  static constexpr int class_shift = 16;
  static constexpr std::int32_t class_above_mean = 9;  ///< of more than 1.2 times the mean

  std::uint32_t tiles_, workers_, last_from_;
  std::int32_t longest_class_of_last_;
  std::uint64_t list_over_, split_over_, piece_blocks_, class_scale_;
};

}  // namespace sparge
