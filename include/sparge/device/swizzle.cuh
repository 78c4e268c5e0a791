#pragma once
/// Where a 16-byte chunk of a shared-memory tile lives, so that eight rows of one chunk column hit eight bank groups.

#include <cstdint>

namespace sparge {

inline constexpr int chunk_bytes = 16;

/// A row-major tile of `channels` 16-bit values a row; chunk c of row r is stored at chunk c ^ (r mod 8).
template <int channels>
struct SwizzledTile {
  static constexpr int chunks = channels * 2 / chunk_bytes;
  static constexpr int row_bytes = channels * 2;
  static_assert(chunks % 8 == 0, "a row must be whole groups of eight chunks");

  static __device__ __forceinline__ int offset(int row, int chunk) {
    return row * row_bytes + (chunk ^ (row & 7)) * chunk_bytes;
  }

  /// From the address of chunk c in a row to that of chunk c + `chunks_on`, where the sum sets no bit of c twice. The tile
  /// starts at a multiple of 1024 bytes. One instruction, so that no address has to be kept in a register.
  static __device__ __forceinline__ std::uint32_t step(std::uint32_t address, int chunks_on) {
    return address ^ (chunks_on * chunk_bytes);
  }
};

__device__ __forceinline__ std::uint32_t shared_address(void const* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace sparge
