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
  /// Of forward: index into `supported_kernels()`, of backward: into `supported_backward_kernels()`; -1 for the best built
  /// one. Calls with one kernel take -1 only.
  std::int32_t force_kernel = -1;
  PointerCheck pointer_check = PointerCheck::alignment;
};

}  // namespace sparge
