#pragma once
/// Comparisons as numbers, for sums of what passes them: one instruction, and the additions go to the pipe of FFMA, which is
/// twice as wide as that of integers.

namespace sparge {

/// 1 where a >= b, else 0; 0 of NaN.
__device__ __forceinline__ float one_where_at_least(float a, float b) {
  float one;
  asm("set.ge.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(a), "f"(b));
  return one;
}

/// To the nearest integer, ties to even; |x| < 2^22. On the pipe of FFMA.
__device__ __forceinline__ float round_small(float x) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23
  return __fadd_rn(__fadd_rn(x, shift), -shift);
}

}  // namespace sparge
