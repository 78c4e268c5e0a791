#pragma once
/// Boxes of a tensor from global to shared memory and back by the copy engine (PTX ISA, "cp.async.bulk.tensor", sm_90). One thread
/// issues a copy. Elements of a box outside the tensor read as zeros and are not written.

#include <cuda.h>

#include <cstdint>

#include "sparge/device/mbarrier.cuh"
#include "sparge/device/warp.cuh"

namespace sparge {

/// True in one lane of a whole warp, always the same one (PTX ISA, "elect.sync"). Where this is the condition, ptxas knows that a
/// single lane runs, and copies whose operands are uniform() take one instruction each instead of a loop over lanes.
__device__ __forceinline__ bool elect_lane() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}

/// Lane 0's value: the same for all lanes, which the compiler then sees.
template <class Value>
__device__ __forceinline__ Value uniform(Value value) {
  return __shfl_sync(all_lanes, value, 0);
}

/// Where a box begins.
struct BoxOrigin {
  int channel, token, head, batch;
};

/// The whole box counts as arrived bytes at `full`, zeros included.
__device__ __forceinline__ void load_box(std::uint32_t shared, CUtensorMap const& tensor, BoxOrigin at,
                                         Mbarrier full) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4, "
      "%5}], [%6];" ::"r"(shared),
      "l"(&tensor), "r"(at.channel), "r"(at.token), "r"(at.head), "r"(at.batch), "r"(full.shared())
      : "memory");
}

__device__ __forceinline__ void store_box(CUtensorMap const& tensor, BoxOrigin at, std::uint32_t shared) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
          &tensor),
      "r"(at.channel), "r"(at.token), "r"(at.head), "r"(at.batch), "r"(shared)
      : "memory");
}

/// This thread's stores since the last call become one group.
__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Returns when this thread's stores no longer read shared memory.
__device__ __forceinline__ void wait_for_store_reads() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Makes this thread's writes to shared memory visible to copies and products that are issued after it.
__device__ __forceinline__ void fence_shared_for_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Fetches descriptors, which lie one behind the other, ahead of their first use (PTX ISA, "prefetch"). By one thread.
template <class Tensors>
__device__ __forceinline__ void prefetch_descriptors(Tensors const& tensors) {
  constexpr int count = sizeof(Tensors) / sizeof(CUtensorMap);
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<CUtensorMap const*>(&tensors) + i)
                 : "memory");
}

/// Writes four 8x8 matrices of 16-bit values to shared memory (PTX stmatrix, sm_90), the inverse of ldmatrix.
__device__ __forceinline__ void stmatrix(std::uint32_t shared, std::uint32_t const (&matrix)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared),
               "r"(matrix[0]), "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
}

}  // namespace sparge
