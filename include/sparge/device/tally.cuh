#pragma once
/// Counting and adding up at once.

#include <cstdint>

namespace sparge {

/// high:low += high_step:value where key >= least. Three instructions, one of which compilers do not find by themselves: they
/// add in any case and select afterwards.
__device__ __forceinline__ void add_where_at_least(std::uint32_t& low, std::uint32_t& high, std::uint32_t key,
                                                   std::uint32_t least, std::uint32_t value,
                                                   std::uint32_t high_step) {
  asm("{\n\t"
      ".reg .pred counts;\n\t"
      "setp.ge.u32 counts, %2, %3;\n\t"
      "@counts add.cc.u32 %0, %0, %4;\n\t"
      "@counts addc.u32 %1, %1, %5;\n\t"
      "}"
      : "+r"(low), "+r"(high)
      : "r"(key), "r"(least), "r"(value), "r"(high_step));
}

}  // namespace sparge
