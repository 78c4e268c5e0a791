#pragma once
/// Sixteen bytes of elements as f32 and back, and single elements likewise.

#include <cstdint>

#include "sparge/core/element.hpp"
#include "sparge/device/convert.cuh"
#include "sparge/device/widen.cuh"

namespace sparge {

/// Elements of T in 16 bytes: 8 or 4.
template <class T>
inline constexpr int chunk_elements = 16 / static_cast<int>(sizeof(T));

/// Exact.
template <class T>
__device__ __forceinline__ void widen_chunk(uint4 bits, float (&x)[chunk_elements<T>]) {
  std::uint32_t const words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      x[i] = __uint_as_float(words[i]);
    } else {
      float2 const pair = widen<T>(words[i]);
      x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
    }
  }
}

/// Rounds to nearest even.
template <class T>
__device__ __forceinline__ uint4 narrow_chunk(float const (&x)[chunk_elements<T>]) {
  if constexpr (sizeof(T) == 4)
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                      __float_as_uint(x[3]));
  else
    return make_uint4(pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(x[4], x[5]), pack<T>(x[6], x[7]));
}

// The named conversions: some frameworks compile without the implicit ones.
__device__ __forceinline__ float widen_one(bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float widen_one(float16 x) { return __half2float(x); }
__device__ __forceinline__ float widen_one(float x) { return x; }

__device__ __forceinline__ void narrow_one(float x, bfloat16& to) { to = __float2bfloat16_rn(x); }
__device__ __forceinline__ void narrow_one(float x, float16& to) { to = __float2half_rn(x); }
__device__ __forceinline__ void narrow_one(float x, float& to) { to = x; }

}  // namespace sparge
