#pragma once
/// Words in shared memory, and several at once, by their 32-bit address, which takes one register where a pointer takes two.

#include <cstdint>

namespace sparge {

__device__ __forceinline__ int load_shared(std::uint32_t shared) {
  int word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared));
  return word;
}

__device__ __forceinline__ void store_shared(std::uint32_t shared, int word) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(word) : "memory");
}

__device__ __forceinline__ void or_shared(std::uint32_t shared, int bits) {
  asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(shared), "r"(bits) : "memory");
}

__device__ __forceinline__ float2 load_shared_pair(std::uint32_t shared) {
  float2 pair;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(shared));
  return pair;
}

__device__ __forceinline__ void load_shared(std::uint32_t (&words)[4], std::uint32_t shared) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared));
}

__device__ __forceinline__ void store_shared(std::uint32_t shared, std::uint32_t const (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}

__device__ __forceinline__ void store_shared(std::uint32_t shared, float4 values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(values.x), "f"(values.y),
               "f"(values.z), "f"(values.w)
               : "memory");
}

}  // namespace sparge
