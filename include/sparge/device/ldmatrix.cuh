#pragma once
/// Four 8x8 matrices of 16-bit values from shared memory into registers (PTX ldmatrix, sm_75).

#include <cstdint>

namespace sparge {

/// Lanes 8i .. 8i+7 address the rows of matrix i; lane l receives columns 2(l mod 4), +1 of row l / 4 of each.
__device__ __forceinline__ void ldmatrix(std::uint32_t (&matrix)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
               : "r"(shared)
               : "memory");
}

/// The same, transposed: lane l receives rows 2(l mod 4), +1 of column l / 4 of each.
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&matrix)[4], std::uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
               : "r"(shared)
               : "memory");
}

}  // namespace sparge
