#pragma once
/// What a persistent thread block does next: items of the schedule, the tiles that are not among them, and items that go last.

#include <cstdint>

#include "sparge/device/warp.cuh"
#include "sparge/plan/schedule.hpp"

namespace sparge {

/// Each item to the first producer that asks for its place. Two calls, so that the place need not be waited for; but whoever asks
/// early has the item to itself, and at the end of a launch others wait. By a whole warp.
class WorkQueue {
public:
  /// Lines of `blocks` blocks. `first` of `producers` over the whole grid, which has asked for one place; there are `tiles` tiles.
  __device__ __forceinline__ WorkQueue(Schedule const& schedule, std::uint32_t tiles, int blocks, int first,
                                       int producers)
      : schedule_(schedule), tiles_(tiles), blocks_(blocks), producers_(producers), requested_(first) {}

  /// For the next place.
  __device__ __forceinline__ void ask() {
    if (lane_index() == 0) requested_ = producers_ + atomicAdd(schedule_.header + Schedule::next, 1u);
  }

  /// The item that was asked for, or one whose tile is past the last. Tiles that are items are passed over where they come up once more.
  __device__ __forceinline__ WorkItem find() {
    static_assert(Schedule::items_end == 0 && Schedule::all_end == 1 && Schedule::first_tile == 2 &&
                  Schedule::tiles_end == 3);
    uint4 const header = *reinterpret_cast<uint4 const*>(schedule_.header);
    std::uint32_t const items = header.x, end = header.y, first_tile = header.z & ~Schedule::has_gaps,
                        tiles_end = header.w;
    while (true) {
      std::uint32_t place = __shfl_sync(all_lanes, requested_, 0);
      if (place >= items) {
        std::uint32_t const tile = place - items + first_tile;
        if (place >= end || tile < tiles_end) {
          if (place < end && header.z & Schedule::has_gaps && schedule_.listed[tile / 32] >> tile % 32 & 1) {
            ask();
            continue;
          }
          return {place < end ? tile : tiles_, 0, blocks_, -1};
        }
        place += first_tile - tiles_end;  // what goes last lies behind what goes first
      }
      return schedule_.items[place];
    }
  }

private:
  Schedule const& schedule_;
  std::uint32_t tiles_;
  int blocks_;
  std::uint32_t producers_;
  std::uint32_t requested_;  ///< in lane 0
};

}  // namespace sparge
