#pragma once
/// Base-2 exponential and logarithm as the hardware computes them.

namespace sparge {

inline constexpr float ln_2 = 0.69314718055994531f, log2_e = 1.4426950408889634f;

/// 2^x to 2 units in the last place; 2^-inf = 0, NaN stays.
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// log2 x to 2^-22 or better; x > 0.
__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x to 1 unit in the last place; 2^-126 <= |x| <= 2^126.
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Square root to 1 unit in the last place; x >= 0.
__device__ __forceinline__ float sqrt_fast(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }

}  // namespace sparge
