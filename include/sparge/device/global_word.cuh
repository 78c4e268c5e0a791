#pragma once
/// Words in global memory at constant distances from one address, which then takes no instruction a word.

#include <cstdint>

namespace sparge {

/// The word `offset_bytes` behind `from`, which will not be read again, or NaN unless index < end.
template <int offset_bytes>
__device__ __forceinline__ float load_once_or_nan(float const* from, int index, int end) {
  float word;
  asm volatile(
      "{.reg .pred exists; setp.lt.s32 exists, %2, %3; mov.b32 %0, 0x7fffffff; "
      "@exists ld.global.cs.f32 %0, [%1 + %4];}"
      : "=f"(word)
      : "l"(from), "r"(index), "r"(end), "n"(offset_bytes));
  return word;
}

/// As it is in memory now, and not in a cache of this SM.
__device__ __forceinline__ std::uint32_t load_uncached(std::uint32_t const* from) {
  std::uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/// What was written before the word that store_releasing() wrote can be read after it.
__device__ __forceinline__ std::uint32_t load_acquiring(std::uint32_t const* from) {
  std::uint32_t word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}
__device__ __forceinline__ void store_releasing(std::uint32_t* to, std::uint32_t word) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

}  // namespace sparge
