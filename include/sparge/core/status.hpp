#pragma once
/// The result of every call. A refused call has launched nothing and written nothing.

#include <driver_types.h>

#include <cstdint>

namespace sparge {

enum class StatusCode : std::int32_t {
  ok,
  invalid_argument,     ///< a value that no build could accept
  unsupported,          ///< a legal request that this build, or this device, has no kernel for
  workspace_too_small,  ///< `given` and `expected` are bytes
  plan_mismatch,        ///< a view's shape or the current device is not what the plan was made for
  cuda_error,           ///< the runtime refused; see `cuda`
};

/// How `given` and `expected` are to be read.
enum class StatusValue : std::int32_t { none, given, given_and_expected, given_real };

/// What was refused, and why. Every pointer is to static storage; nothing to free. Print it with `describe()`.
struct [[nodiscard]] Status {
  StatusCode code = StatusCode::ok;
  char const* field = "";   ///< the argument, e.g. "q.stride"; `axis` says which entry
  char const* reason = "";  ///< what is wrong and what would work
  std::int32_t axis = -1;   ///< index into an array field, -1 = not an array
  StatusValue shows = StatusValue::none;
  std::int64_t given = 0, expected = 0;
  double given_real = 0;
  cudaError_t cuda = cudaSuccess;

  constexpr bool ok() const { return code == StatusCode::ok; }
  constexpr explicit operator bool() const { return ok(); }
};

}  // namespace sparge
