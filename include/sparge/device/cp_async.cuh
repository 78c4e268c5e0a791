#pragma once
/// Asynchronous copies from global to shared memory (PTX cp.async, sm_80).

#include <cstdint>

namespace sparge {

/// Copies 16 bytes past L1, or writes 16 zero bytes where !valid: then nothing is read and `global` may be any address.
__device__ __forceinline__ void cp_async_16(std::uint32_t shared, void const* global, bool valid) {
  int const source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(source_bytes)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `pending` of this thread's latest groups are in flight.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace sparge
