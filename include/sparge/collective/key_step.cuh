#pragma once
/// What consumers must know of one tile of keys of a row, and the word that tells them in shared memory.

namespace sparge {

struct KeyStep {
  int valid_keys;  ///< of the tile's columns; the rest do not count
  bool is_last;    ///< of its row

  __device__ __forceinline__ int word() const { return valid_keys << 1 | static_cast<int>(is_last); }
  static __device__ __forceinline__ KeyStep of(int word) { return {word >> 1, (word & 1) != 0}; }
};

}  // namespace sparge
