#pragma once
/// What a caller may choose when making a plan.

#include <cstdint>

namespace sparge {

/// How calls check the pointers they are given.
enum class PointerCheck : std::int32_t {
  alignment,  ///< null and alignment only; costs nothing
  location,  ///< also that the memory is reachable from the plan's device; a driver query per pointer, about a microsecond
};

struct PlanOptions {
  std::int32_t force_kernel =
      -1;  ///< index into `supported_kernels()`; -1 = the best built one for problem and device
  PointerCheck pointer_check = PointerCheck::alignment;
};

}  // namespace sparge
