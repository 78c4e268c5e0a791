#pragma once
/// f32 to the element types, two at a time.

#include <cstdint>

#include "sparge/core/element.hpp"

namespace sparge {

/// Rounds to nearest even; `low` lands in the lower half, where the lower column of a fragment lives.
template <class T>
__device__ __forceinline__ std::uint32_t pack(float low, float high);

template <>
__device__ __forceinline__ std::uint32_t pack<bfloat16>(float low, float high) {
  __nv_bfloat162 const pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}

template <>
__device__ __forceinline__ std::uint32_t pack<float16>(float low, float high) {
  __half2 const pair = __floats2half2_rn(low, high);
  return reinterpret_cast<std::uint32_t const&>(pair);
}

/// sum + 0 * x for both halves: a sum of 0 stays 0 until an infinite or NaN x makes it NaN.
template <class T>
__device__ __forceinline__ std::uint32_t add_zero_times(std::uint32_t sum, std::uint32_t x);

template <>
__device__ __forceinline__ std::uint32_t add_zero_times<bfloat16>(std::uint32_t sum, std::uint32_t x) {
  asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(0));
  return sum;
}

template <>
__device__ __forceinline__ std::uint32_t add_zero_times<float16>(std::uint32_t sum, std::uint32_t x) {
  asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(0));
  return sum;
}

}  // namespace sparge
