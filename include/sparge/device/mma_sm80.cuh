#pragma once
/// D += A B on one warp's tensor cores: A 16x16 and B 16x8 in 16 bits, D 16x8 in f32 (PTX mma.sync, sm_80).

#include <cstdint>

#include "sparge/core/element.hpp"

namespace sparge {

template <class T>
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t b0,
                                            std::uint32_t b1);

template <>
__device__ __forceinline__ void mma_16x8x16<bfloat16>(float (&d)[4], std::uint32_t const (&a)[4],
                                                      std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void mma_16x8x16<float16>(float (&d)[4], std::uint32_t const (&a)[4],
                                                     std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace sparge
