#pragma once
/// An f32 value as the sum of two f16 values, so that tensor cores multiply it to 22 bits, and powers of two.

#include <cstdint>

#include "sparge/core/element.hpp"
#include "sparge/device/convert.cuh"
#include "sparge/device/widen.cuh"

namespace sparge {

/// x + y with x and y rounded to f16: together within 2^-22 of the value, or within 2^-25 where that is more.
struct SplitPair {
  std::uint32_t high, low;  ///< two neighbouring channels each
};

/// |a| and |b| below 65504.
__device__ __forceinline__ SplitPair split(float a, float b) {
  std::uint32_t const high = pack<float16>(a, b);
  float2 const rounded = widen<float16>(high);
  return {high, pack<float16>(a - rounded.x, b - rounded.y)};
}

/// Exponent of the leading bit of x, at least -127: |x| < 2^(exponent + 1). 128 for infinities and NaN.
__device__ __forceinline__ int exponent_of(float x) {
  return static_cast<int>(__float_as_uint(x) >> 23 & 255) - 127;
}

/// 2^exponent; -126 <= exponent <= 127.
__device__ __forceinline__ float power_of_two(int exponent) {
  return __uint_as_float(static_cast<std::uint32_t>(exponent + 127) << 23);
}

/// 2^exponent / power, where `power` is a power of two and so is the result, neither subnormal.
__device__ __forceinline__ float divide_power(int exponent, float power) {
  return __uint_as_float((static_cast<std::uint32_t>(exponent + 2 * 127) << 23) - __float_as_uint(power));
}

}  // namespace sparge
