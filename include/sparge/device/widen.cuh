#pragma once
/// Element types to f32, two at a time.

#include <cstdint>

#include "sparge/core/element.hpp"

namespace sparge {

/// Exact; x is the lower half of `bits`.
template <class T>
__device__ __forceinline__ float2 widen(std::uint32_t bits);

template <>
__device__ __forceinline__ float2 widen<bfloat16>(std::uint32_t bits) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

template <>
__device__ __forceinline__ float2 widen<float16>(std::uint32_t bits) {
  return __half22float2(reinterpret_cast<__half2 const&>(bits));
}

}  // namespace sparge
