#pragma once
/// A list in shared memory that grows by what reaches a floor.

#include <cstdint>

namespace sparge {

/// Where `value` is at least `floor`: puts it at `end` and moves that on. Three instructions, none of them a branch.
template <int stride_bytes>
__device__ __forceinline__ void append_if_at_least(std::uint32_t& end, float value, float floor) {
  asm volatile(
      "{.reg .pred counts; setp.ge.f32 counts, %1, %2; @counts st.shared.f32 [%0], %1; "
      "@counts add.u32 %0, %0, %3;}"
      : "+r"(end)
      : "f"(value), "f"(floor), "n"(stride_bytes)
      : "memory");
}

}  // namespace sparge
