#pragma once
/// What a plan needs to know of a GPU. Filled by `query_device()`, or by hand to plan for a GPU that is not here.

#include <cstdint>

namespace sparge {

struct Device {
  std::int32_t ordinal = 0;  ///< CUDA device index that calls must run on
  std::int32_t capability_major = 0, capability_minor = 0;
  std::int32_t sm_count = 0;
  std::int64_t shared_bytes_per_block = 0;  ///< largest opt-in dynamic shared memory of one thread block
  std::int64_t shared_bytes_per_sm = 0;
  std::int64_t l2_bytes = 0;

  constexpr std::int32_t capability() const { return 10 * capability_major + capability_minor; }
};

}  // namespace sparge
