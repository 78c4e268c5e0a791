#pragma once
/// What should not take registers.

namespace sparge {

/// Keeps an object in local memory rather than in registers, and says that nothing of it is in registers here. For what a loop that
/// follows does not use: where registers are short, the compiler may rather spill what the loop uses in every step.
template <class Object>
__device__ __forceinline__ void keep_in_memory(Object& object) {
  asm volatile("" ::"l"(&object) : "memory");
}

}  // namespace sparge
