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

}  // namespace sparge
