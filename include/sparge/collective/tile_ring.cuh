#pragma once
/// A ring of tiles in shared memory that are visited one after the other, the next ones in flight.

#include <cstdint>

#include "sparge/device/cp_async.cuh"

namespace sparge {

/// `Place` is where a tile comes from; `Place::exists()` is false past the last one. Copies are requested by
/// `request(slot, place)`, one copy group a tile, empty past the last.
template <class Place, int stages>
class TileRing {
public:
  /// Requests the first stages - 1 tiles. Whatever was requested before arrives with the first of them.
  template <class Walk, class Request>
  __device__ __forceinline__ void start(Walk& walk, Request request) {
#pragma unroll
    for (int stage = 0; stage + 1 < stages; ++stage) {
      ahead_[stage] = walk.next();
      request_group(request, stage, ahead_[stage]);
    }
  }

  /// Moves on to the next tile: on return it has arrived for all threads, or there is none and nothing is in flight. All
  /// threads must be done with the tile before, which is replaced.
  template <class Walk, class Request>
  __device__ __forceinline__ Place advance(Walk& walk, Request request) {
    slot_ = next_slot(slot_);
    Place const last = walk.next();
    if constexpr (stages == 1) {
      __syncthreads();
      request_group(request, 0, last);
      cp_async_wait<0>();
      __syncthreads();
      return last;
    } else {
      cp_async_wait<stages - 2>();
      __syncthreads();
      Place const now = ahead_[0];
#pragma unroll
      for (int i = 0; i + 2 < stages; ++i) ahead_[i] = ahead_[i + 1];
      ahead_[stages - 2] = last;
      request_group(request, slot_ == 0 ? stages - 1 : slot_ - 1, last);
      return now;
    }
  }

  /// Of the tile that advance() returned.
  __device__ __forceinline__ int slot() const { return slot_; }

private:
  static __device__ __forceinline__ int next_slot(int slot) { return slot + 1 == stages ? 0 : slot + 1; }

  template <class Request>
  static __device__ __forceinline__ void request_group(Request request, int slot, Place const& place) {
    if (place.exists()) request(slot, place);
    cp_async_commit();
  }

  Place ahead_[stages > 1 ? stages - 1 : 1];  ///< the tiles in flight, in order
  int slot_ = stages - 1;
};

}  // namespace sparge
