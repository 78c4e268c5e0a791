#pragma once
/// Words in shared memory by their 32-bit address, which takes one register where a pointer takes two.

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

}  // namespace sparge
