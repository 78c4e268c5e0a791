#pragma once
/// Which lines of a mask go first and which are split, as plain functions that host tests call too.

#include <driver_types.h>

#include <cstdint>

#include "sparge/plan/schedule.hpp"

namespace sparge {

/// The load of a worker is kept blocks / workers, the mean that of a tile.
///
/// A line is split where it exceeds a third of the load and twice the mean, in equal pieces of at most a fourth of the load, or the
/// mean where that is more. It is listed where it exceeds a 32nd of the load: what is left for the end is short. Where there are
/// few tiles all are listed, so that long ones go first.
class ScheduleRule {
public:
  /// `kept` blocks in all lines together.
  __host__ __device__ ScheduleRule(std::uint64_t kept, ScheduleShape const& shape) {
    constexpr auto least_piece = static_cast<std::uint64_t>(ScheduleBounds::least_piece_blocks);
    auto const tiles = static_cast<std::uint64_t>(shape.tiles),
               workers = static_cast<std::uint64_t>(shape.workers),
               listed = ScheduleBounds::listed_a_worker * workers;
    lists_all_ = tiles <= listed;
    list_over_ = kept / listed;
    split_over_ = larger(larger(kept / (3 * workers), 2 * kept / tiles), 2 * least_piece);
    piece_blocks_ = larger(larger(divide_up(kept, 4 * workers), divide_up(kept, tiles)), least_piece);
  }

  __host__ __device__ bool lists_all() const { return lists_all_; }

  /// Whether a line of `count` kept blocks is an item, and not a tile that follows the items in head-major order.
  __host__ __device__ bool lists(std::uint32_t count) const { return lists_all_ || count > list_over_; }

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

  /// Items are ordered by classes of length, each a third to a half longer than the one before.
  static constexpr std::int32_t classes = 64;
  static __host__ __device__ std::int32_t class_of(std::uint32_t count) {
    if (count < 2) return static_cast<std::int32_t>(count);
#ifdef __CUDA_ARCH__
    int const exponent = 31 - __clz(static_cast<int>(count));
#else
    int exponent = 1;
    while (exponent < 31 && count >> (exponent + 1) != 0) ++exponent;
#endif
    return 2 * exponent + static_cast<std::int32_t>(count >> (exponent - 1) & 1);
  }

private:
  static __host__ __device__ std::uint64_t larger(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }
  static __host__ __device__ std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
    return (a + b - 1) / b;
  }

  bool lists_all_;
  std::uint64_t list_over_, split_over_, piece_blocks_;
};

}  // namespace sparge
